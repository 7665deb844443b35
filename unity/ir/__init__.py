"""The one intermediate representation: types, expressions, statements, functions, modules. Nodes and what follows from
them (walks, equality, inference, building, verification, reference interpretation); no script, no operators, no targets."""

from ..support import lazy as _lazy
from ..support.arguments import gathered as _gathered
from .buffer import (
    Buffer as Buffer,
    BufferRegion as BufferRegion,
    MatchBufferRegion as MatchBufferRegion,
    Range as Range,
)
from .builder import BlockBuilder as BlockBuilder, make_call as make_call
from .expr import (
    Binding as Binding,
    BindingBlock as BindingBlock,
    Call as Call,
    Constant as Constant,
    DataflowBlock as DataflowBlock,
    DataTypeImm as DataTypeImm,
    ExternFunc as ExternFunc,
    FloatImm as FloatImm,
    GlobalVar as GlobalVar,
    If as If,
    IntImm as IntImm,
    MatchCast as MatchCast,
    Op as Op,
    SeqExpr as SeqExpr,
    ShapeExpr as ShapeExpr,
    StringImm as StringImm,
    Tuple as Tuple,
    TupleGetItem as TupleGetItem,
    Var as Var,
    VarBinding as VarBinding,
    is_dataflow_var as is_dataflow_var,
    op as op,
)
from .function import BaseFunc as BaseFunc, Function as Function, PrimFunc as PrimFunc
from .module import IRModule as IRModule
from .node import Node as Node, replace as replace
from .op import OPS as OPS, OpInfo as OpInfo, Param as Param, register_op as register_op
from .save import load_json as load_json, save_json as save_json
from .scalar import (
    EQ as EQ,
    GE as GE,
    GT as GT,
    LE as LE,
    LT as LT,
    NE as NE,
    Add as Add,
    And as And,
    Binary as Binary,
    Broadcast as Broadcast,
    BufferLoad as BufferLoad,
    Cast as Cast,
    CommReducer as CommReducer,
    Compare as Compare,
    Div as Div,
    FloorDiv as FloorDiv,
    FloorMod as FloorMod,
    IterVar as IterVar,
    Let as Let,
    Max as Max,
    Min as Min,
    Mod as Mod,
    Mul as Mul,
    Not as Not,
    Or as Or,
    Ramp as Ramp,
    Reduce as Reduce,
    Select as Select,
    Shuffle as Shuffle,
    Sub as Sub,
)
from .specialize import specialize as specialize
from .stmt import (
    AllocBuffer as AllocBuffer,
    AllocConst as AllocConst,
    AssertStmt as AssertStmt,
    AttrStmt as AttrStmt,
    Bind as Bind,
    Block as Block,
    BlockRealize as BlockRealize,
    Break as Break,
    BufferStore as BufferStore,
    Continue as Continue,
    DeclBuffer as DeclBuffer,
    Evaluate as Evaluate,
    For as For,
    IfThenElse as IfThenElse,
    Return as Return,
    SeqStmt as SeqStmt,
    Stmt as Stmt,
    While as While,
    seq as seq,
)
from .structural import (
    assert_structural_equal as assert_structural_equal,
    first_difference as first_difference,
    structural_equal as structural_equal,
    structural_hash as structural_hash,
)
from .types import (
    OBJECT as OBJECT,
    VOID_TYPE as VOID_TYPE,
    Expr as Expr,
    FuncType as FuncType,
    ObjectType as ObjectType,
    PointerType as PointerType,
    PrimType as PrimType,
    ShapeType as ShapeType,
    TensorType as TensorType,
    TupleType as TupleType,
    Type as Type,
    prim_type as prim_type,
)
from .walk import (
    Rewriter as Rewriter,
    collect as collect,
    free_vars as free_vars,
    fresh_copy as fresh_copy,
    rewrite as rewrite,
    substitute as substitute,
)

__all__ = _gathered(globals())
__getattr__ = _lazy.lazy_names(__name__, {})[0]
