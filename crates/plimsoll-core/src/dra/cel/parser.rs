//! Parses a selector into its syntax tree, expanding nothing: macros stay what they are.
//!
//! Nesting is bounded as in Kubernetes, so that neither parsing nor anything that walks the tree can exhaust the stack.

use super::ast::{Element, Entry, Expr, Kind, Macro};
use super::lexer::{Spanned, SyntaxError, Token, tokenize};
use super::value::Value;

/// How deep expressions may nest; the limit of Kubernetes' parser.
const MAX_NESTING: usize = 250;
/// How deep the tree may become, which chains such as `a.b.c` deepen without nesting.
const MAX_DEPTH: usize = 251;
/// How long an expression may be; the limit of Kubernetes' parser.
const MAX_CHARS: usize = 100_000;

/// Why a text is not an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum ParseError {
    Syntax(SyntaxError),
    /// The expression is beyond a limit as a whole.
    Limit(String),
}

impl From<SyntaxError> for ParseError {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

type Parsed = Result<Node, ParseError>;

/// An expression under construction and the height of its tree.
struct Node {
    expr: Expr,
    depth: usize,
}

pub fn parse(source: &[char]) -> Result<Expr, ParseError> {
    if source.len() > MAX_CHARS {
        let size = source.len();
        return Err(ParseError::Limit(format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_CHARS}"
        )));
    }
    let mut parser = Parser { tokens: tokenize(source)?, source, at: 0, nesting: 0, negated: None };
    let node = parser.expr()?;
    match parser.peek() {
        Token::End => Ok(node.expr),
        _ => parser.unexpected("<EOF>"),
    }
}

struct Parser<'a> {
    tokens: Vec<Spanned>,
    source: &'a [char],
    at: usize,
    nesting: usize,
    /// The token whose minus has been taken into account.
    negated: Option<usize>,
}

const OPERAND: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |spanned| &spanned.token)
    }

    fn pos(&self) -> usize {
        self.tokens.get(self.at).map_or(self.source.len(), |spanned| spanned.pos)
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ParseError> {
        if self.accept(symbol) { Ok(()) } else { self.unexpected(&format!("'{symbol}'")) }
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T, ParseError> {
        let text = match self.tokens.get(self.at) {
            Some(found) if found.token != Token::End => {
                self.source.iter().skip(found.pos).take(found.end - found.pos).collect()
            }
            _ => "<EOF>".to_owned(),
        };
        self.error(self.pos(), format!("Syntax error: mismatched input '{text}' expecting {wanted}"))
    }

    fn error<T>(&self, pos: usize, message: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::Syntax(SyntaxError { pos, message: message.into() }))
    }

    fn node(&self, pos: usize, kind: Kind, below: usize) -> Parsed {
        if below >= MAX_DEPTH {
            return Err(ParseError::Limit("max recursion depth exceeded".to_owned()));
        }
        Ok(Node { expr: Expr { pos, kind }, depth: below + 1 })
    }

    fn call(&self, pos: usize, function: &str, operands: [Node; 2]) -> Parsed {
        let below = operands.iter().map(|node| node.depth).max().unwrap_or(0);
        let args = operands.into_iter().map(|node| node.expr).collect();
        self.node(pos, Kind::Call { target: None, function: function.to_owned(), args }, below)
    }

    fn expr(&mut self) -> Parsed {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(ParseError::Limit(format!("expression recursion limit exceeded: {MAX_NESTING}")));
        }
        let condition = self.or()?;
        let pos = self.pos();
        let node = if self.accept("?") {
            let then = self.or()?;
            self.expect(":")?;
            let otherwise = self.expr()?;
            let below = condition.depth.max(then.depth).max(otherwise.depth);
            self.node(pos, Kind::Ternary(Box::new([condition.expr, then.expr, otherwise.expr])), below)
        } else {
            Ok(condition)
        };
        self.nesting -= 1;
        node
    }

    fn or(&mut self) -> Parsed {
        self.chain("||", Self::and, Kind::Or)
    }

    fn and(&mut self) -> Parsed {
        self.chain("&&", Self::relation, Kind::And)
    }

    fn chain(
        &mut self,
        symbol: &str,
        mut term: impl FnMut(&mut Self) -> Parsed,
        kind: fn(Vec<Expr>) -> Kind,
    ) -> Parsed {
        let first = term(self)?;
        if !self.is(symbol) {
            return Ok(first);
        }
        let pos = self.pos();
        let mut below = first.depth;
        let mut terms = vec![first.expr];
        while self.accept(symbol) {
            let next = term(self)?;
            below = below.max(next.depth);
            terms.push(next.expr);
        }
        self.node(pos, kind(terms), below)
    }

    fn relation(&mut self) -> Parsed {
        let mut left = self.sum()?;
        loop {
            let function = match self.peek() {
                Token::In => "@in",
                Token::Symbol("==") => "_==_",
                Token::Symbol("!=") => "_!=_",
                Token::Symbol("<") => "_<_",
                Token::Symbol("<=") => "_<=_",
                Token::Symbol(">") => "_>_",
                Token::Symbol(">=") => "_>=_",
                _ => return Ok(left),
            };
            let pos = self.pos();
            self.at += 1;
            let right = self.sum()?;
            left = self.call(pos, function, [left, right])?;
        }
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        loop {
            let function = match self.peek() {
                Token::Symbol("+") => "_+_",
                Token::Symbol("-") => "_-_",
                _ => return Ok(left),
            };
            let pos = self.pos();
            self.at += 1;
            let right = self.product()?;
            left = self.call(pos, function, [left, right])?;
        }
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let function = match self.peek() {
                Token::Symbol("*") => "_*_",
                Token::Symbol("/") => "_/_",
                Token::Symbol("%") => "_%_",
                _ => return Ok(left),
            };
            let pos = self.pos();
            self.at += 1;
            let right = self.unary()?;
            left = self.call(pos, function, [left, right])?;
        }
    }

    fn unary(&mut self) -> Parsed {
        let pos = self.pos();
        let (symbol, function) = match self.peek() {
            Token::Symbol("!") => ("!", "!_"),
            Token::Symbol("-") => ("-", "-_"),
            _ => return self.member(),
        };
        let mut times = 0;
        while self.accept(symbol) {
            times += 1;
        }
        let literal = self.at;
        if times == 1 && symbol == "-" && self.negate_literal() {
            let mut node = self.member()?;
            if let (Kind::Literal(_), true) = (&node.expr.kind, self.at == literal + 1) {
                node.expr.pos = pos;
            }
            return Ok(node);
        }
        let operand = self.member()?;
        if times % 2 == 0 {
            return Ok(operand);
        }
        let below = operand.depth;
        self.node(pos, Kind::Call { target: None, function: function.to_owned(), args: vec![operand.expr] }, below)
    }

    /// Makes the number that comes next negative; a minus belongs to the literal it stands before.
    fn negate_literal(&mut self) -> bool {
        self.negated = Some(self.at);
        match self.tokens.get_mut(self.at).map(|spanned| &mut spanned.token) {
            Some(Token::Literal(Value::Int(value))) => {
                *value = value.wrapping_neg();
                true
            }
            Some(Token::Literal(Value::Double(value))) => {
                *value = -*value;
                true
            }
            _ => false,
        }
    }

    fn member(&mut self) -> Parsed {
        let mut node = self.primary()?;
        loop {
            let pos = self.pos();
            if self.accept(".") {
                let optional = self.accept("?");
                let field = match self.advance() {
                    Token::Ident(name) | Token::Reserved(name) | Token::Quoted(name) => name,
                    _ => {
                        self.at -= 1;
                        return self.unexpected("IDENTIFIER");
                    }
                };
                let call = self.pos();
                if !optional && self.accept("(") {
                    let (args, below) = self.list(")", Self::expr)?;
                    let below = below.max(node.depth);
                    node = self.member_call(call, node.expr, field, args, below)?;
                } else {
                    let below = node.depth;
                    node = self.node(pos, Kind::Select { operand: Box::new(node.expr), field, optional }, below)?;
                }
            } else if self.accept("[") {
                let optional = self.accept("?");
                let index = self.expr()?;
                self.expect("]")?;
                let below = node.depth.max(index.depth);
                let (operand, index) = (Box::new(node.expr), Box::new(index.expr));
                node = self.node(pos, Kind::Index { operand, index, optional }, below)?;
            } else {
                return Ok(node);
            }
        }
    }

    /// What is separated by commas up to the closing symbol; one more comma at the end is fine but in calls.
    fn list(
        &mut self,
        closing: &str,
        mut item: impl FnMut(&mut Self) -> Parsed,
    ) -> Result<(Vec<Expr>, usize), ParseError> {
        let mut items = Vec::new();
        let mut below = 0;
        while !self.accept(closing) {
            if !items.is_empty() {
                self.expect(",")?;
                if closing != ")" && self.accept(closing) {
                    break;
                }
            }
            let node = item(self)?;
            below = below.max(node.depth);
            items.push(node.expr);
        }
        Ok((items, below))
    }

    fn primary(&mut self) -> Parsed {
        let pos = self.pos();
        match self.advance() {
            Token::Literal(Value::Int(i64::MIN)) if self.negated != Some(self.at - 1) => {
                self.error(pos, "invalid int literal")
            }
            Token::Literal(value) => self.node(pos, Kind::Literal(value), 0),
            Token::Symbol("(") => {
                let node = self.expr()?;
                self.expect(")")?;
                Ok(node)
            }
            Token::Symbol("[") => self.list_literal(pos),
            Token::Symbol("{") => self.map_literal(pos),
            Token::Symbol(".") => match self.advance() {
                Token::Ident(name) => self.ident(pos, name),
                _ => {
                    self.at -= 1;
                    self.unexpected("IDENTIFIER")
                }
            },
            Token::Ident(name) => self.ident(pos, name),
            Token::Reserved(name) => self.error(pos, format!("reserved identifier: {name}")),
            _ => {
                self.at -= 1;
                self.unexpected(OPERAND)
            }
        }
    }

    fn ident(&mut self, pos: usize, name: String) -> Parsed {
        let call = self.pos();
        if self.accept("(") {
            let (mut args, below) = self.list(")", Self::expr)?;
            if name == "has" && args.len() == 1 {
                return match args.pop() {
                    Some(Expr { kind: Kind::Select { operand, field, optional: false }, .. }) => {
                        self.node(call, Kind::Has { operand, field }, below)
                    }
                    other => self.error(other.map_or(call, |expr| expr.pos), "invalid argument to has() macro"),
                };
            }
            return self.node(call, Kind::Call { target: None, function: name, args }, below);
        }
        if let Some((name, brace)) = self.struct_name(&name) {
            self.skip_braces()?;
            return self.node(brace, Kind::Struct(name), 0);
        }
        self.node(pos, Kind::Ident(name), 0)
    }

    /// Looks ahead for `.b.c{`: the name a message literal begins with.
    fn struct_name(&mut self, first: &str) -> Option<(String, usize)> {
        let mut name = first.to_owned();
        let mut at = self.at;
        loop {
            let token = &self.tokens.get(at)?.token;
            match (token, self.tokens.get(at + 1).map(|next| &next.token)) {
                (Token::Symbol("{"), _) => {
                    let pos = self.tokens.get(at)?.pos;
                    self.at = at + 1;
                    return Some((name, pos));
                }
                (Token::Symbol("."), Some(Token::Ident(part))) => {
                    name.push('.');
                    name.push_str(part);
                    at += 2;
                }
                _ => return None,
            }
        }
    }

    fn skip_braces(&mut self) -> Result<(), ParseError> {
        let mut open = 1;
        while open > 0 {
            match self.advance() {
                Token::Symbol("{") => open += 1,
                Token::Symbol("}") => open -= 1,
                Token::End => {
                    self.at -= 1;
                    return self.unexpected("'}'");
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn list_literal(&mut self, pos: usize) -> Parsed {
        let mut optional = Vec::new();
        let (values, below) = self.list("]", |parser| {
            optional.push(parser.accept("?"));
            parser.expr()
        })?;
        let elements = values.into_iter().zip(optional).map(|(value, optional)| Element { value, optional }).collect();
        self.node(pos, Kind::List(elements), below)
    }

    fn map_literal(&mut self, pos: usize) -> Parsed {
        let mut keys = Vec::new();
        let (values, below) = self.list("}", |parser| {
            let optional = parser.accept("?");
            let key = parser.expr()?;
            parser.expect(":")?;
            let mut value = parser.expr()?;
            value.depth = value.depth.max(key.depth);
            keys.push((key.expr, optional));
            Ok(value)
        })?;
        let entries =
            keys.into_iter().zip(values).map(|((key, optional), value)| Entry { key, value, optional }).collect();
        self.node(pos, Kind::Map(entries), below)
    }

    fn member_call(&self, pos: usize, target: Expr, function: String, args: Vec<Expr>, below: usize) -> Parsed {
        use Macro::{All, Bind, Exists, ExistsOne, Filter, Map, OptFlatMap, OptMap, SortBy};
        use Macro::{TransformList, TransformMap, TransformMapEntry};
        let (op, vars) = match (function.as_str(), args.len()) {
            ("all", 2) => (All, 1),
            ("all", 3) => (All, 2),
            ("exists", 2) => (Exists, 1),
            ("exists", 3) => (Exists, 2),
            ("exists_one" | "existsOne", 2) => (ExistsOne, 1),
            ("exists_one" | "existsOne", 3) => (ExistsOne, 2),
            ("map", 2 | 3) => (Map, 1),
            ("filter", 2) => (Filter, 1),
            ("transformList", 3 | 4) => (TransformList, 2),
            ("transformMap", 3 | 4) => (TransformMap, 2),
            ("transformMapEntry", 3 | 4) => (TransformMapEntry, 2),
            ("sortBy", 2) => (SortBy, 1),
            ("optMap", 2) => (OptMap, 1),
            ("optFlatMap", 2) => (OptFlatMap, 1),
            ("bind", 3) if matches!(&target.kind, Kind::Ident(name) if name == "cel") => (Bind, 1),
            _ => {
                let kind = Kind::Call { target: Some(Box::new(target)), function, args };
                return self.node(pos, kind, below);
            }
        };
        let mut args = args.into_iter();
        let mut names: Vec<String> = Vec::new();
        for arg in args.by_ref().take(vars) {
            match arg.kind {
                Kind::Ident(name) if !names.contains(&name) => names.push(name),
                Kind::Ident(name) => return self.error(arg.pos, format!("duplicate variable name: {name}")),
                _ => return self.error(arg.pos, not_a_variable(op, &function)),
            }
        }
        let range = if op == Bind { args.next().unwrap_or(target) } else { target };
        let kind = Kind::Macro { op, range: Box::new(range), vars: names, args: args.collect() };
        self.node(pos, kind, below)
    }
}

fn not_a_variable(op: Macro, function: &str) -> String {
    match op {
        Macro::Bind => "cel.bind() variable names must be simple identifiers".to_owned(),
        Macro::OptMap | Macro::OptFlatMap => format!("{function}() variable name must be a simple identifier"),
        Macro::SortBy => {
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression".to_owned()
        }
        _ => "argument is not an identifier".to_owned(),
    }
}
