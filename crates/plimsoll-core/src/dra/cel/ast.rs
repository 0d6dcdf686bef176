//! The syntax tree of a selector.

use super::value::Value;

/// A node and where it stands in the source, counted in characters.
#[derive(Debug, Clone)]
pub struct Expr {
    pub pos: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone)]
pub enum Kind {
    Literal(Value),
    Ident(String),
    /// `operand.field`, or with `optional` `operand.?field`.
    Select {
        operand: Box<Expr>,
        field: String,
        optional: bool,
    },
    /// `has(operand.field)`.
    Has {
        operand: Box<Expr>,
        field: String,
    },
    /// `operand[index]`, or with `optional` `operand[?index]`.
    Index {
        operand: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    /// Operators are calls too, under the names CEL has for them, such as `_+_`.
    Call {
        target: Option<Box<Expr>>,
        function: String,
        args: Vec<Expr>,
    },
    /// A chain of `&&`, kept flat so that a long one is not deep.
    And(Vec<Expr>),
    /// A chain of `||`.
    Or(Vec<Expr>),
    Ternary(Box<[Expr; 3]>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    /// `Name{...}`: there is no type a selector could construct, so only the name matters.
    Struct(String),
    Macro {
        op: Macro,
        /// What is iterated over; for `cel.bind` the value of the variable.
        range: Box<Expr>,
        vars: Vec<String>,
        args: Vec<Expr>,
    },
}

/// An element of a list literal; `[?x]` is left out when `x` has no value.
#[derive(Debug, Clone)]
pub struct Element {
    pub value: Expr,
    pub optional: bool,
}

/// An entry of a map literal.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

/// Calls that bind variables, and so cannot be functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Macro {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
    SortBy,
    OptMap,
    OptFlatMap,
    Bind,
}

impl Expr {
    /// The dotted name this expression spells, if it is one: `a.b.c`.
    pub fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, optional: false } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }
}
