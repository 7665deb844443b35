"""The one intermediate representation: types, expressions, statements, functions, modules. Nodes and what follows from
them (walks, equality, inference, building, verification, reference interpretation); no script, no operators, no targets."""

from .buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from .builder import BlockBuilder, make_call
from .expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    FloatImm,
    GlobalVar,
    If,
    IntImm,
    MatchCast,
    Op,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    op,
)  # fmt: skip
from .function import BaseFunc, Function, PrimFunc
from .module import IRModule
from .node import Node, replace
from .op import OPS, OpInfo, Param, register_op
from .scalar import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
    Broadcast,
    BufferLoad,
    Cast,
    CommReducer,
    Compare,
    Div,
    FloorDiv,
    FloorMod,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Sub,
)  # fmt: skip
from .stmt import (
    AllocBuffer,
    AllocConst,
    AssertStmt,
    AttrStmt,
    Bind,
    Block,
    BlockRealize,
    Break,
    BufferStore,
    Continue,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    Return,
    SeqStmt,
    Stmt,
    While,
    seq,
)  # fmt: skip
from .structural import assert_structural_equal, first_difference, structural_equal, structural_hash
from .types import (
    OBJECT,
    VOID_TYPE,
    Expr,
    FuncType,
    ObjectType,
    PointerType,
    PrimType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    prim_type,
)  # fmt: skip
from .walk import collect, free_vars, fresh_copy, post_order, rewrite, substitute

__all__ = [name for name in dir() if not name.startswith("_")]
