//! Turns the text of a selector into tokens.

use super::value::Value;

#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    Literal(Value),
    Ident(String),
    /// `` `a-b` `` after a dot.
    Quoted(String),
    /// A word that may name a field but not a variable.
    Reserved(String),
    In,
    Symbol(&'static str),
    End,
}

/// A token, where it starts and where it ends, in characters.
#[derive(Debug, Clone)]
pub struct Spanned {
    pub token: Token,
    pub pos: usize,
    pub end: usize,
}

/// What is wrong with the text, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntaxError {
    pub pos: usize,
    pub message: String,
}

const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "?", ":", ".", ",", "(", ")", "[", "]", "{", "}", "+", "-", "*",
    "/", "%",
];

pub fn tokenize(source: &[char]) -> Result<Vec<Spanned>, SyntaxError> {
    let mut lexer = Lexer { source, pos: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let pos = lexer.pos;
        let token = lexer.next()?;
        let done = token == Token::End;
        tokens.push(Spanned { token, pos, end: lexer.pos });
        if done {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    source: &'a [char],
    pos: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.source.get(self.pos + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.peek(i) == Some(c))
    }

    fn take_while(&mut self, mut wanted: impl FnMut(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(c) = self.peek(0).filter(|c| wanted(*c)) {
            taken.push(c);
            self.pos += 1;
        }
        taken
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}'));
            if !self.starts_with("//") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn next(&mut self) -> Result<Token, SyntaxError> {
        let Some(c) = self.peek(0) else {
            return Ok(Token::End);
        };
        if let Some(prefix) = self.string_prefix() {
            return self.string(prefix);
        }
        if c.is_ascii_alphabetic() || c == '_' {
            return Ok(self.word());
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return self.number();
        }
        if c == '`' {
            return self.quoted();
        }
        for symbol in SYMBOLS {
            if self.starts_with(symbol) {
                self.pos += symbol.len();
                return Ok(Token::Symbol(symbol));
            }
        }
        self.unrecognized(self.pos)
    }

    fn unrecognized<T>(&self, from: usize) -> Result<T, SyntaxError> {
        let text: String = self.source.iter().skip(from).take((self.pos - from).max(1)).collect();
        Err(SyntaxError { pos: from, message: format!("Syntax error: token recognition error at: '{text}'") })
    }

    fn word(&mut self) -> Token {
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        match word.as_str() {
            "true" => Token::Literal(Value::Bool(true)),
            "false" => Token::Literal(Value::Bool(false)),
            "null" => Token::Literal(Value::Null),
            "in" => Token::In,
            _ if RESERVED.contains(&word.as_str()) => Token::Reserved(word),
            _ => Token::Ident(word),
        }
    }

    fn quoted(&mut self) -> Result<Token, SyntaxError> {
        let start = self.pos;
        self.pos += 1;
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c));
        if name.is_empty() || self.peek(0) != Some('`') {
            return self.unrecognized(start);
        }
        self.pos += 1;
        Ok(Token::Quoted(name))
    }

    fn number(&mut self) -> Result<Token, SyntaxError> {
        let start = self.pos;
        if self.starts_with("0x") && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit()) {
            self.pos += 2;
            let digits = self.take_while(|c| c.is_ascii_hexdigit());
            return self.integer(start, &digits, 16);
        }
        let mut text = self.take_while(|c| c.is_ascii_digit());
        let mut float = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            self.pos += 1;
            text.push('.');
            text += &self.take_while(|c| c.is_ascii_digit());
            float = true;
        }
        let signed = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + signed).is_some_and(|c| c.is_ascii_digit()) {
            for _ in 0..=signed {
                text.extend(self.peek(0));
                self.pos += 1;
            }
            text += &self.take_while(|c| c.is_ascii_digit());
            float = true;
        }
        if !float {
            return self.integer(start, &text, 10);
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Token::Literal(Value::Double(value))),
            _ => Err(SyntaxError { pos: start, message: "invalid double literal".to_owned() }),
        }
    }

    /// An integer; a minus before it is the parser's, which knows that the smallest one has no positive.
    fn integer(&mut self, start: usize, digits: &str, radix: u32) -> Result<Token, SyntaxError> {
        let parsed = u64::from_str_radix(digits, radix);
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.pos += 1;
            return match parsed {
                Ok(value) => Ok(Token::Literal(Value::UInt(value))),
                Err(_) => Err(SyntaxError { pos: start, message: "invalid uint literal".to_owned() }),
            };
        }
        match parsed {
            Ok(value) if value <= i64::MAX as u64 => Ok(Token::Literal(Value::Int(value as i64))),
            Ok(value) if value == 1 << 63 && self.after_minus(start) => Ok(Token::Literal(Value::Int(i64::MIN))),
            _ => Err(SyntaxError { pos: start, message: "invalid int literal".to_owned() }),
        }
    }

    fn after_minus(&self, start: usize) -> bool {
        let before = self.source.iter().take(start).rev().find(|c| !c.is_whitespace());
        before == Some(&'-')
    }

    /// Letters before a quote that make a string raw or bytes: (raw, bytes).
    fn string_prefix(&self) -> Option<(bool, bool)> {
        let mut prefix = (false, false);
        for ahead in 0..3 {
            match self.peek(ahead)? {
                '"' | '\'' => return Some(prefix),
                'r' | 'R' if !prefix.0 => prefix.0 = true,
                'b' | 'B' if !prefix.1 && !prefix.0 => prefix.1 = true,
                _ => return None,
            }
        }
        None
    }

    fn string(&mut self, (raw, bytes): (bool, bool)) -> Result<Token, SyntaxError> {
        let start = self.pos;
        self.pos += usize::from(raw) + usize::from(bytes);
        let quote = self.peek(0).unwrap_or('"');
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let closing = if triple { 3 } else { 1 };
        self.pos += closing;
        let mut text = Vec::new();
        loop {
            let Some(c) = self.peek(0) else {
                return self.unrecognized(start);
            };
            if c == quote && (!triple || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote))) {
                self.pos += closing;
                break;
            }
            if !triple && matches!(c, '\n' | '\r') {
                return self.unrecognized(start);
            }
            self.pos += 1;
            if c == '\\' && !raw {
                match self.escape(bytes) {
                    Some(Escaped::Char(c)) => push_char(&mut text, c),
                    Some(Escaped::Byte(b)) => text.push(b),
                    None => return self.unrecognized(start),
                }
            } else if c == '\r' {
                // Line ends inside a triple-quoted string are normalised.
                self.pos += usize::from(self.peek(0) == Some('\n'));
                text.push(b'\n');
            } else {
                push_char(&mut text, c);
            }
        }
        if bytes {
            return Ok(Token::Literal(Value::Bytes(text.into())));
        }
        match String::from_utf8(text) {
            Ok(text) => Ok(Token::Literal(Value::from(text.as_str()))),
            Err(_) => self.unrecognized(start),
        }
    }

    fn escape(&mut self, bytes: bool) -> Option<Escaped> {
        let c = self.peek(0)?;
        self.pos += 1;
        let plain = match c {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' | '\'' | '"' | '`' | '?' => c,
            'x' | 'X' => return self.code(2, 16, 0, bytes),
            'u' if !bytes => return self.code(4, 16, 0, false),
            'U' if !bytes => return self.code(8, 16, 0, false),
            '0'..='3' => return self.code(2, 8, c.to_digit(8)?, bytes),
            _ => return None,
        };
        Some(Escaped::Char(plain))
    }

    fn code(&mut self, digits: usize, radix: u32, first: u32, byte: bool) -> Option<Escaped> {
        let mut code = first;
        for _ in 0..digits {
            code = code.checked_mul(radix)?.checked_add(self.peek(0)?.to_digit(radix)?)?;
            self.pos += 1;
        }
        if byte { u8::try_from(code).ok().map(Escaped::Byte) } else { char::from_u32(code).map(Escaped::Char) }
    }
}

enum Escaped {
    Char(char),
    Byte(u8),
}

fn push_char(text: &mut Vec<u8>, c: char) {
    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}
