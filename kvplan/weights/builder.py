"""The tensors of one rank, collected layer by layer as vLLM's model classes create them.

A model file calls the methods in vLLM's terms: linear layers split by columns or rows or not at all, vocabulary
embeddings, routed experts, norms, buffers. Sizes given are the whole model's; the builder takes the rank's part and
asks the quantisation which tensors a layer has.

Source: vllm/model_executor/layers (linear.py, vocab_parallel_embedding.py, fused_moe/layer.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from kvplan.engine.stages import layer_counts
from kvplan.errors import DoesNotStart, Refused
from kvplan.model import Model
from kvplan.weights.parts import Experts, Linear, Tensor
from kvplan.weights.quant.base import Unquantized
from kvplan.weights.rotary import Rotary, table

VOCABULARY_PADDING = 64
_MOST = 100_000
"""Tensors of a model on one rank: ten times what any published one has."""


class Builder:
    """Collects the tensors of one model on the first rank of a pipeline stage: no rank of it holds more."""

    def __init__(
        self,
        model: Model,
        scheme: Unquantized,
        stage: int = 0,
        tables: set[tuple[Any, ...]] | None = None,
        *,
        pads: bool = True,
    ) -> None:
        self.model = model
        self.config = model.config
        self.scheme = scheme
        self.stage = stage
        self.stages = model.engine.pipeline_parallel_size if model.target is None else 1
        self.tensors: list[Tensor] = []
        self.tables = set() if tables is None else tables
        """Rotary tables that exist already: a drafter finds those of its target."""
        self.pads = pads
        """Whether the vocabulary is padded; a checkpoint's is not."""
        self.dtype = model.dtype
        self.tensor_parallel_size = model.tensor_parallel_size

    @property
    def first(self) -> bool:
        """Whether the stage embeds the tokens."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """Whether the stage computes the logits."""
        return self.stage == self.stages - 1

    @property
    def sequence_parallel(self) -> bool:
        """Whether experts' tokens are split over the tensor-parallel ranks too (`use_sequence_parallel_moe`)."""
        engine = self.model.engine
        return engine.enable_expert_parallel and self.tensor_parallel_size > 1 and engine.data_parallel_size > 1

    @property
    def batch_invariant(self) -> bool:
        """VLLM_BATCH_INVARIANT, which switches specialised kernels off."""
        return self.model.engine.args.env.get("VLLM_BATCH_INVARIANT") == "1"

    def only_unquantized(self) -> None:
        """Refused where the checkpoint is quantised: vLLM's names of these layers are not known well enough."""
        if self.scheme.name != "none":
            self.refuse(f"under quantisation {self.scheme.name}")

    def refuse(self, what: str) -> NoReturn:
        """Refuse weights that kvplan does not know: ``what`` says which of this architecture's."""
        raise Refused(
            f"{self.config.where}: the weights of {self.model.architecture} {what} are not known to kvplan; give "
            "--weights-bytes."
        )

    def layers(self, count: int) -> range:
        """Decoder layers of the stage (`make_layers`)."""
        if self.stages == 1:
            return range(count)
        counts = layer_counts(count, self.stages, self.model.engine.args.env.get("VLLM_PP_LAYER_PARTITION"))
        start = sum(counts[: self.stage])
        return range(start, start + counts[self.stage])

    def has_tower(self, *modalities: str) -> bool:
        """Whether the stage holds the encoder of ``modalities`` (`_mark_tower_model`).

        It does not where none of them is allowed in a prompt, nor after the first stage of the V2 runner.
        """
        engine = self.model.engine
        if engine.args.language_model_only or (engine.use_v2_model_runner and not self.first):
            return False
        limits = engine.args.additional_flags.get("limit_mm_per_prompt")
        if not isinstance(limits, Mapping):
            return True
        return any(_limit(limits.get(name)) != 0 for name in modalities)

    @contextmanager
    def tower(self, heads: int = 0) -> Iterator[None]:
        """While an encoder is built: whole on every rank where `--mm-encoder-tp-mode` is data.

        So it is where its class looks at its ``heads`` and they do not divide (`is_vit_use_data_parallel`).
        """
        whole = self.model.engine.args.additional_flags.get("mm_encoder_tp_mode") == "data"
        if not whole and heads % self.tensor_parallel_size == 0:
            yield
            return
        model, ranks = self.model, self.tensor_parallel_size
        self.model, self.tensor_parallel_size = model._replace(tensor_parallel_size=1), 1
        yield
        self.model, self.tensor_parallel_size = model, ranks

    def add(self, name: str, elements: int, dtype: str | None = None) -> None:
        """A parameter or buffer that is no linear layer's; the model's dtype unless another is given."""
        self._keep(Tensor(name, elements, dtype or self.dtype))

    def buffer(self, name: str, elements: int, dtype: str | None = None) -> None:
        """A tensor that no checkpoint brings."""
        self._keep(Tensor(name, elements, dtype or self.dtype, loaded=False))

    def remove(self, name: str) -> None:
        """Take a tensor back that a class deletes after its parent made it."""
        self.tensors = [tensor for tensor in self.tensors if tensor.name != name]

    def add_all(self, prefix: str, parts: Iterable[Tensor]) -> None:
        for part in parts:
            self._keep(part._replace(name=f"{prefix}.{part.name}"))

    def _keep(self, tensor: Tensor) -> None:
        """One more tensor. Refused beyond what any model has: a config is untrusted."""
        if len(self.tensors) >= _MOST:
            raise Refused(f"{self.model.root.where}: has more than {_MOST} tensors; correct the numbers of layers.")
        self.tensors.append(tensor)

    def divide(self, size: int, what: str, ranks: int | None = None) -> int:
        """A size split evenly over the ranks. DoesNotStart where it cannot be, as `divide` refuses."""
        ranks = self.tensor_parallel_size if ranks is None else ranks
        if size % ranks:
            raise DoesNotStart(
                f"{self.model.root.where}: {what} ({size}) cannot be split over --tensor-parallel-size {ranks}; "
                "choose a size that divides it."
            )
        return size // ranks

    def norm(self, prefix: str, size: int, *, bias: bool = False, dtype: str | None = None) -> None:
        """A norm's weight, and its bias where it has one: the same on every rank."""
        self.add(f"{prefix}.weight", size, dtype)
        if bias:
            self.add(f"{prefix}.bias", size, dtype)

    def replicated(
        self,
        prefix: str,
        input_size: int,
        outputs: int | Sequence[int],
        *,
        bias: bool = False,
        dtype: str | None = None,
        quantized: bool = True,
    ) -> None:
        """`ReplicatedLinear`, or a column parallel layer with ``disable_tp``."""
        sizes = (outputs,) if isinstance(outputs, int) else tuple(outputs)
        layer = Linear(prefix, input_size, sum(sizes), input_size, sizes, dtype or self.dtype, 1)
        self.linear(layer, bias=sum(sizes) if bias else 0, quantized=quantized)

    def column(
        self,
        prefix: str,
        input_size: int,
        outputs: int | Sequence[int],
        *,
        bias: bool = False,
        dtype: str | None = None,
        quantized: bool = True,
    ) -> None:
        """`ColumnParallelLinear`, or `MergedColumnParallelLinear` where several outputs are given."""
        sizes = (outputs,) if isinstance(outputs, int) else tuple(outputs)
        parts = tuple(self.divide(size, f"an output of {prefix}") for size in sizes)
        layer = Linear(
            prefix, input_size, sum(sizes), input_size, parts, dtype or self.dtype, self.tensor_parallel_size
        )
        self.linear(layer, bias=sum(parts) if bias else 0, quantized=quantized)

    def row(
        self,
        prefix: str,
        input_size: int,
        output_size: int,
        *,
        bias: bool = False,
        dtype: str | None = None,
        quantized: bool = True,
    ) -> None:
        """`RowParallelLinear`; its bias is whole on every rank."""
        part = self.divide(input_size, f"the input of {prefix}")
        dtype = dtype or self.dtype
        layer = Linear(prefix, input_size, output_size, part, (output_size,), dtype, self.tensor_parallel_size)
        self.linear(layer, bias=output_size if bias else 0, quantized=quantized)

    def qkv(
        self,
        prefix: str,
        input_size: int,
        head_size: int,
        heads: int,
        kv_heads: int,
        *,
        head_size_v: int | None = None,
        bias: bool = False,
        quantized: bool = True,
    ) -> None:
        """`QKVParallelLinear`: the KV heads are split where there are enough, else one is replicated."""
        ranks = self.tensor_parallel_size
        own = self.divide(heads, f"the heads of {prefix}")
        own_kv = self.model.kv_heads_per_rank(kv_heads)
        value = head_size if head_size_v is None else head_size_v
        parts = (own * head_size, own_kv * head_size, own_kv * value)
        layer = Linear(prefix, input_size, sum(parts) * ranks, input_size, parts, self.dtype, ranks)
        self.linear(layer, bias=sum(parts) if bias else 0, quantized=quantized)

    def linear(self, layer: Linear, *, bias: int = 0, quantized: bool = True) -> None:
        """Any linear layer; ``bias`` counts the rank's elements of it."""
        scheme = self.scheme if quantized else _PLAIN
        self.add_all(layer.prefix, scheme.linear(layer))
        if bias:
            self.add(f"{layer.prefix}.bias", bias, layer.dtype)

    def embedding(self, prefix: str, vocabulary: int, size: int, *, quantized: bool = True) -> None:
        """`VocabParallelEmbedding`: padded to a multiple of 64 rows, then split."""
        rows = self.vocabulary_rows(vocabulary)
        scheme = self.scheme if quantized else _PLAIN
        self.add_all(prefix, scheme.embedding(prefix, rows, size, self.dtype))

    def head(
        self,
        prefix: str,
        vocabulary: int,
        size: int,
        *,
        bias: bool = False,
        quantized: bool = True,
        tied: bool = False,
    ) -> None:
        """`ParallelLMHead`: as the embedding, and quantised by the few methods that do so.

        ``tied``: its weight is the embedding's, and the scales that a quantisation made for it stay (`tie_weights`).
        """
        rows = self.vocabulary_rows(vocabulary)
        layer = Linear(prefix, size, rows * self.tensor_parallel_size, size, (rows,), self.dtype, 1)
        scheme = self.scheme if quantized else _PLAIN
        self.add_all(prefix, (part for part in scheme.head(layer) if not (tied and part.name == "weight")))
        if bias:
            self.add(f"{prefix}.bias", rows)

    def vocabulary_rows(self, vocabulary: int, padding: int = VOCABULARY_PADDING) -> int:
        """Rows of a rank's part of the padded vocabulary."""
        padding = padding if self.pads else 1
        return self.divide(-(-vocabulary // padding) * padding, "the padded vocabulary")

    def experts(
        self,
        prefix: str,
        count: int,
        hidden: int,
        intermediate: int,
        *,
        gated: bool = True,
        bias: bool = False,
        activation: str = "silu",
        quantized: bool = True,
        dtype: str | None = None,
        renormalizes: bool | None = None,
    ) -> None:
        """Routed experts: split over all ranks, or whole experts dealt out to them under expert parallelism.

        The first rank holds one more where they do not divide (`FusedMoEParallelConfig.make`, `determine_expert_map`).
        """
        engine = self.model.engine
        ranks = self.tensor_parallel_size * engine.data_parallel_size * engine.prefill_context_parallel_size
        spread = engine.enable_expert_parallel and ranks > 1
        backend = engine.args.additional_flags.get("all2all_backend")
        if spread and engine.data_parallel_size > 1 and backend not in (None, "allgather_reducescatter"):
            self.refuse(f"with --all2all-backend {backend}")
        if engine.args.additional_flags.get("enable_eplb"):
            self.refuse("with --enable-eplb")
        local, tp = (-(-count // ranks), 1) if spread else (count, ranks)
        layer = Experts(
            prefix=f"{prefix}.experts",
            local=local,
            total=count,
            hidden=hidden,
            intermediate=self.divide(intermediate, "the experts' intermediate size", tp),
            gated=gated,
            has_bias=bias,
            dtype=dtype or self.dtype,
            tensor_parallel_size=tp,
            activation=activation,
            backend=str(engine.args.additional_flags.get("moe_backend") or "auto"),
            capability=engine.gpu.capability,
            renormalizes=renormalizes,
            batch_invariant=self.batch_invariant,
        )
        scheme = self.scheme if quantized else _PLAIN
        self.add_all(f"{layer.prefix}.routed_experts", scheme.experts(layer))
        if spread:
            self.buffer(f"{layer.prefix}.routed_experts._expert_map", count, "int32")

    def attention(self, prefix: str, *, mla: bool = False, quantized: bool = True) -> None:
        """What an attention layer registers itself: scales of the cache (`_init_kv_cache_quant`)."""
        scheme = self.scheme if quantized else _PLAIN
        for scale in scheme.attention(prefix, self.dtype, mla=mla):
            self.buffer(f"{prefix}.{scale.name}", scale.elements, scale.dtype)
        for name in ("k", "v", "q", "prob"):
            self.buffer(f"{prefix}._{name}_scale", 1, "float32")

    def rotary(
        self,
        prefix: str,
        head_size: int,
        max_position: int,
        parameters: Mapping[str, Any] | None,
        **fields: Any,
    ) -> None:
        """The table of rotary positions, unless an earlier layer has the same."""
        rotary = Rotary(head_size, max_position, parameters or {}, fields.pop("dtype", self.dtype), **fields)
        if rotary.key in self.tables:
            return
        self.tables.add(rotary.key)
        made = table(rotary)
        self.buffer(f"{prefix}.{made.name}", made.rows * made.columns, made.dtype)


def _limit(value: Any) -> Any:
    """Items of a modality that `--limit-mm-per-prompt` allows: a number, or an object with a count."""
    return value.get("count") if isinstance(value, Mapping) else value


_PLAIN = Unquantized()
