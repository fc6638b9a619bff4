"""Teach kb-mini other languages: it starts from the shipped model, which is also its teacher.

    python -m training.multilingual WORK NAME [--seconds 600] [--rate 1e-4] ...

WORK contains `tokenizer-extended.json` (training.vocabulary), the shipped model under `shipped/`,
`parallel.tsv.xz`, `retrieval.jsonl.gz`, `english.jsonl.gz` and `pairs.jsonl.gz`. Every step learns
two things:

- English stays what it is: all three outputs for English texts, token by token, as the teacher has
  them. English word embeddings do not change at all.
- A translation gets the vector that the teacher has for the English sentence, and its token vectors
  match those of the English tokens (`translation_loss`); or, later, a query finds its passage among
  those of the same source and language, by each output and by their sum (`retrieval_loss`).

Writes `NAME.pt`: half precision, and the new word embeddings in int8, on the scale of the others.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import multiprocessing
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from tokenizers import Tokenizer
from torch import Tensor, nn

from training.data import held_out_pair, is_licensed
from training.model import Bert, Encoder
from training.packed import Packed, batches_by_length
from training.prepare import DEVICE, PREFIX
from training.shipped import load_encoder
from training.terms import EACH, Terms
from training.vocabulary import parallel_rows

QUERY_TOKENS, PASSAGE_TOKENS, SENTENCE_TOKENS = 64, 224, 96
MEASURED_ONLY = frozenset({"qmsum", "friendsqa"})  # dialogues that no training sees
START = time.time()


def log(*what: object) -> None:
    print(f"{time.time() - START:6.0f} s", *what, flush=True)


def trained_source(source: str) -> bool:
    return is_licensed(source) and source not in MEASURED_ONLY


# --- data -----------------------------------------------------------------------------------------


@dataclass
class Pairs:
    """Queries and passages of all sources, and the rows of each source and language."""

    queries: Packed
    passages: Packed
    groups: dict[tuple[str, str], np.ndarray]
    same: Tensor  # equal passages have equal numbers


@dataclass
class Held:
    """English texts whose outputs stay: the passages first, then the queries."""

    texts: Packed
    passages: int


class Reader:
    """Tokenizes; queries get the prefix."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self.terms = Terms(tokenizer)
        self.prefix = tokenizer.encode(PREFIX, add_special_tokens=False).ids
        self.first, self.last = tokenizer.encode("").ids

    def rows(self, texts: list[str], limit: int, *, query: bool = False) -> list[list[int]]:
        head = [self.first, *self.prefix] if query else [self.first]
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [[*head, *encoding.ids[: limit - 2], self.last] for encoding in encodings]

    def term_arrays(self, rows: list[list[int]]) -> list[np.ndarray]:
        with multiprocessing.get_context("fork").Pool() as pool:
            return pool.map(self._term_array, rows, chunksize=512)

    def _term_array(self, row: list[int]) -> np.ndarray:
        return np.array(self.terms(row), dtype=np.int32).reshape(-1, EACH)


def lines(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def retrieval_pairs(work: Path, few: int) -> list[tuple[str, str, str, str]]:
    """Source, language, query and passage of every pair that is learned."""
    pairs = [
        (row["source"], row.get("lang", "en"), row["query"], row["positive"])
        for name in ("retrieval", "english")
        for row in lines(work / f"{name}.jsonl.gz")
        if trained_source(row["source"]) and not held_out_pair(row["positive"])
    ]
    return pairs[:few] + pairs[-few:] if few else pairs


def pack_pairs(reader: Reader, pairs: list[tuple[str, str, str, str]]) -> Pairs:
    queries = reader.rows([pair[2] for pair in pairs], QUERY_TOKENS, query=True)
    passages = reader.rows([pair[3] for pair in pairs], PASSAGE_TOKENS)
    terms = [reader.term_arrays(rows) for rows in (queries, passages)]
    packs = [Packed(rows, DEVICE) for rows in (queries, passages)]
    for pack, arrays in zip(packs, terms, strict=True):
        pack.add_terms(arrays)
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        groups[pair[:2]].append(number)
    numbers: dict[str, int] = {}
    same = torch.tensor([numbers.setdefault(pair[3], len(numbers)) for pair in pairs])
    kept = {key: np.array(rows) for key, rows in groups.items() if len(rows) >= 24}
    return Pairs(packs[0], packs[1], kept, same.to(DEVICE))


# --- the student ----------------------------------------------------------------------------------


class Student(nn.Module):
    """The encoder; its new word embeddings are learned, the English ones are not."""

    def __init__(self, teacher: Encoder, fresh: Tensor, idf: Tensor, continues: Tensor) -> None:
        super().__init__()
        bert = Bert(len(teacher.bert.layers), vocabulary=len(teacher.bert.words.weight))
        width = teacher.token_vectors.out_features
        self.encoder = Encoder(bert, teacher.idf.clone(), teacher.continues.clone(), width)
        self.encoder.load_state_dict(teacher.state_dict())
        self.encoder.idf, self.encoder.continues = idf, continues
        self.register_buffer("english", teacher.bert.words.weight.detach().clone())
        self.fresh = nn.Parameter(fresh)
        self.scales = nn.Parameter(torch.tensor([30.0, 1.0, 30.0]).log())
        self.encoder.bert.words.weight.requires_grad_(False)
        self.encoder.bert.positions.weight.requires_grad_(False)
        self.encoder.bert.kinds.weight.requires_grad_(False)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        words = torch.cat([self.english, self.fresh])
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            return run(self.encoder, F.embedding(ids, words), ids)


def run(encoder: Encoder, words: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`Encoder.forward` with given word embeddings."""
    bert, mask = encoder.bert, (ids != 0).long()
    places = torch.arange(ids.shape[1], device=ids.device)
    hidden = bert.norm(words + bert.positions(places) + bert.kinds.weight[0])
    bias = torch.zeros_like(mask, dtype=hidden.dtype).masked_fill(mask == 0, -1e4)
    bias = bias[:, None, None, :]
    for layer in bert.layers:
        hidden = layer(hidden, bias.to(torch.bfloat16 if DEVICE == "cuda" else hidden.dtype))
    return encoder.outputs(hidden, ids, mask)


def is_content(encoder: Encoder, ids: Tensor, prefix: int) -> Tensor:
    """The tokens that have weights and vectors: words of the text, not of the prefix."""
    counts = (encoder.idf[ids] > 0) & (ids != 0)
    if prefix:
        counts[:, 1 : 1 + prefix] = False
    return counts


def alike(queries: Tensor, asked: Tensor, passages: Tensor, counts: Tensor) -> Tensor:
    """MaxSim [queries, passages], as a mean over the query's tokens."""
    scores = torch.einsum("aid,bjd->abij", queries.bfloat16(), passages.bfloat16())
    best = scores.masked_fill(~counts[None, :, None, :], -1).amax(-1).float()
    return (best * asked[:, None]).sum(-1) / asked.sum(-1).clamp(min=1)[:, None]


# --- losses ---------------------------------------------------------------------------------------


class Lessons:
    def __init__(self, student: Student, teacher: Encoder, reader: Reader) -> None:
        self.student, self.teacher = student, teacher
        self.prefix = torch.tensor(reader.prefix, device=DEVICE)

    def with_prefix(self, ids: Tensor) -> Tensor:
        prefix = self.prefix.expand(len(ids), -1)
        return torch.cat([ids[:, :1], prefix, ids[:, 1:]], 1)

    @torch.no_grad()
    def taught(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            return self.teacher(ids, (ids != 0).long())

    def english_loss(self, ids: Tensor, prefix: int) -> Tensor:
        """How far the outputs for English texts are from the teacher's."""
        dense, passage, query, tokens = self.student(ids)
        goals = [x.float() for x in self.taught(ids)]
        counts = is_content(self.teacher, ids, prefix).float()
        total = counts.sum().clamp(min=1)
        far = 1 - (dense.float() * goals[0]).sum(-1).mean()
        apart = 1 - F.cosine_similarity(tokens.float(), goals[3], dim=-1)
        weights = (passage.float() - goals[1]) ** 2 + (query.float() - goals[2]) ** 2
        return (
            30 * far
            + 5 * (apart * counts).sum() / total
            + 2 * (weights.squeeze(-1) * counts).sum() / total
        )

    def translation_loss(
        self, ids: Tensor, goal: Tensor, english: Tensor, number: Tensor, *, query: bool, some: int
    ) -> Tensor:
        """`goal` is the teacher's vector of each English sentence; `english` are the tokens of the
        first `some` of them. Equal sentences have equal numbers."""
        prefix = len(self.prefix) if query else 0
        dense, _, _, tokens = self.student(self.with_prefix(ids) if query else ids)
        dense = dense.float()
        same = number[:, None] == number[None]
        same.fill_diagonal_(False)
        scores = (dense @ goal.T / 0.05).masked_fill(same, -1e4)
        gold = torch.arange(len(ids), device=DEVICE)
        loss = 20 * (1 - (dense * goal).sum(-1).mean()) + 0.3 * F.cross_entropy(scores, gold)
        theirs = F.normalize(self.taught(english)[3].float(), dim=-1)
        mine = F.normalize(tokens[:some, prefix:].float(), dim=-1)
        own = is_content(self.student.encoder, ids[:some], 0)
        other = is_content(self.teacher, english, 0)
        same, gold = same[:some, :some], gold[:some]
        there = 20 * alike(mine, own, theirs, other).masked_fill(same, -1)
        back = 20 * alike(theirs, other, mine, own).masked_fill(same, -1)
        return loss + 0.3 * (F.cross_entropy(there, gold) + F.cross_entropy(back, gold))

    def retrieval_loss(self, pairs: Pairs, rows: np.ndarray) -> Tensor:
        rows = torch.from_numpy(rows).to(DEVICE)
        sides = []
        terms = []
        for pack in (pairs.queries, pairs.passages):
            ids, at = pack.batch(rows)
            terms.append(pack.terms_at(ids, at))
            sides.append(ids)
        used = torch.unique(torch.cat([x.flatten() for x in terms]))
        encoded = []
        for ids, term, query in zip(sides, terms, (True, False), strict=True):
            dense, passage, asked, tokens = self.student(ids)
            counts = is_content(self.student.encoder, ids, len(self.prefix) if query else 0)
            weights = (asked if query else passage).squeeze(-1).float() * counts
            place = torch.searchsorted(used, term).flatten(1)
            each = (weights.unsqueeze(-1) * (term > 0)).flatten(1)
            sparse = torch.zeros(len(ids), len(used), device=DEVICE)
            sparse = sparse.scatter_reduce(1, place, each, "amax")
            vectors = F.normalize(tokens.float(), dim=-1)
            encoded.append((dense.float(), sparse, vectors, counts))
        (qd, qs, qt, qc), (pd, ps, pt, pc) = encoded
        scale = self.student.scales.exp()
        scores = [qd @ pd.T * scale[0], qs @ ps.T * scale[1], alike(qt, qc, pt, pc) * scale[2]]
        same = pairs.same[rows][:, None] == pairs.same[rows][None]
        same.fill_diagonal_(False)
        gold = torch.arange(len(rows), device=DEVICE)
        loss = 1e-4 * (qs.sum(-1).mean() + ps.sum(-1).mean())
        for score, weight in zip([*scores, sum(scores)], (1.0, 1.0, 1.0, 0.5), strict=True):
            loss = loss + weight * F.cross_entropy(score.masked_fill(same, -1e4), gold)
        return loss


# --- new word embeddings --------------------------------------------------------------------------


def first_embeddings(words: Tensor, size: int, english: Packed, other: Packed) -> Tensor:
    """Start values of the new pieces: the mean embedding of a translation's tokens should be that
    of the English ones. Solved for all of them together, by gradient descent."""
    known = len(words)
    fresh = nn.Parameter(words.mean(0) + 0.01 * torch.randn(size - known, 384, device=DEVICE))
    optimizer = torch.optim.Adam([fresh], lr=5e-3)
    rng, steps = np.random.default_rng(0), 600 if DEVICE == "cuda" else 5
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 5e-3 * (1 - step / steps) + 1e-4
        rows = torch.from_numpy(rng.integers(0, len(english.lengths), 8192)).to(DEVICE)
        (there, _), (here, _) = english.batch(rows), other.batch(rows)
        with torch.no_grad():
            # A few English names contain new pieces, which have no embedding so far.
            there = there.clamp(max=known - 1)
            goal = _mean(F.embedding(there, words), there)
        mine = _mean(F.embedding(here, torch.cat([words, fresh])), here)
        loss = F.mse_loss(mine, goal) * 384
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    log("first embeddings", f"loss {loss.item():.3f}", f"std {fresh.std().item():.3f}")
    return fresh.detach()


def _mean(vectors: Tensor, ids: Tensor) -> Tensor:
    inside = (ids != 0).float()
    inside[:, 0] = 0  # the first token is the same everywhere
    return (vectors * inside.unsqueeze(-1)).sum(1) / inside.sum(1).clamp(min=1)[:, None]


def rarity(reader: Reader, teacher: Encoder, pairs: list[tuple[str, str, str, str]]) -> Tensor:
    """The rarity of each token in [0, 1]: the teacher's for English tokens; for others that of the
    language in which the token is most common; 0 for tokens that are not terms."""
    size, known = len(reader.terms.texts), len(teacher.idf)
    by_language: dict[str, list[str]] = defaultdict(list)
    for _, language, _, passage in pairs:
        if language not in ("en", "ar-en"):
            by_language[language[-2:]].append(passage)
    share = np.zeros(size)
    most = 2
    for passages in by_language.values():
        if len(passages) < 500:
            continue
        most = max(most, len(passages))
        frequency = np.zeros(size)
        for row in reader.rows(passages, PASSAGE_TOKENS):
            frequency[list(set(row))] += 1
        share = np.maximum(share, frequency / len(passages))
    idf = np.log(1 + 1 / (share + 1 / most)) / math.log(1 + most)
    is_term = np.array([bool(any(row)) for row in (reader.terms([n])[0] for n in range(size))])
    values = torch.from_numpy(np.where(is_term, idf, 0.0)).float().clamp(0, 1)
    values[:known] = teacher.idf.cpu()
    return values


# --- training -------------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("name")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument(
        "--translation-share", type=float, default=0.4, help="of the time, at first"
    )
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--fresh-rate", type=float, default=1e-3)
    parser.add_argument("--tokens", type=int, default=40_000, help="tokens of a translation batch")
    parser.add_argument("--batch", type=int, default=160, help="queries of a retrieval batch")
    parser.add_argument("--english-weight", type=float, default=1.0)
    parser.add_argument("--english-pairs", type=float, default=0.25, help="share of English groups")
    parser.add_argument("--few", type=int, default=0, help="this many texts: a rehearsal")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    reader = Reader(Tokenizer.from_file(str(options.work / "tokenizer-extended.json")))
    pairs = retrieval_pairs(options.work, options.few)
    packed = pack_pairs(reader, pairs)
    log(len(pairs), "pairs in", len(packed.groups), "groups")
    rows = list(parallel_rows(options.work / "parallel.tsv.xz"))
    rows = rows[:: max(1, len(rows) // options.few)] if options.few else rows
    numbers: dict[str, int] = {}
    number = torch.tensor([numbers.setdefault(row[0], len(numbers)) for row in rows]).to(DEVICE)
    english = Packed(reader.rows([row[0] for row in rows], SENTENCE_TOKENS), DEVICE)
    other = Packed(reader.rows([row[2] for row in rows], SENTENCE_TOKENS), DEVICE)
    log(len(rows), "translations")
    held = held_texts(options, reader, pairs)
    log(len(held.texts.lengths), "English texts")
    teacher = load_encoder(options.work / "shipped")
    idf = rarity(reader, teacher, pairs).to(DEVICE)
    teacher = teacher.to(DEVICE)
    words = teacher.bert.words.weight.detach()
    fresh = first_embeddings(words, len(idf), english, other)
    continues = torch.tensor(reader.terms.continues, device=DEVICE).float()
    student = Student(teacher, fresh, idf, continues).to(DEVICE)
    lessons = Lessons(student, teacher, reader)
    goals = teacher_vectors(lessons, english, number)
    log("ready")
    learn(options, lessons, rng, (english, other, number, goals), packed, held)
    save(student, options.work / f"{options.name}.pt")
    log("saved")


def held_texts(options: Any, reader: Reader, pairs: Any) -> Held:
    """English passages and, with the prefix, queries: what must stay."""
    texts = [row["positive"] for row in lines(options.work / "pairs.jsonl.gz")]
    asked = [row["query"] for row in lines(options.work / "pairs.jsonl.gz")]
    texts += [pair[3] for pair in pairs if pair[1] == "en"]
    asked += [pair[2] for pair in pairs if pair[1] == "en"]
    if options.few:
        texts, asked = texts[: options.few], asked[: options.few]
    packed = Packed(reader.rows(texts, 256) + reader.rows(asked, QUERY_TOKENS, query=True), DEVICE)
    return Held(packed, len(texts))


@torch.no_grad()
def teacher_vectors(lessons: Lessons, english: Packed, number: Tensor) -> tuple[Tensor, Tensor]:
    """The teacher's vector of each sentence, as a passage and as a query. Equal sentences, which
    have equal numbers, are encoded once."""
    goals = torch.zeros(2, len(english.lengths), 384, dtype=torch.float16, device=DEVICE)
    _, first = np.unique(number.cpu().numpy(), return_index=True)
    order = first[np.argsort(english.lengths[first])]
    for start in range(0, len(order), 2048):
        rows = order[start : start + 2048]
        ids, _ = english.batch(rows)
        ids = ids.clamp(max=len(lessons.teacher.idf) - 1)
        at = torch.from_numpy(rows).to(DEVICE)
        goals[0, at] = lessons.taught(ids)[0].half()
        goals[1, at] = lessons.taught(lessons.with_prefix(ids))[0].half()
    first_of = torch.from_numpy(first).to(DEVICE)[number]
    return goals[0][first_of], goals[1][first_of]


def learn(
    options: Any, lessons: Lessons, rng: Any, translations: Any, packed: Pairs, held: Held
) -> None:
    english, other, number, goals = translations
    student = lessons.student
    body = [p for n, p in student.named_parameters() if n != "fresh" and p.requires_grad]
    rates = (options.fresh_rate, options.rate)
    optimizer = torch.optim.AdamW(
        [{"params": [student.fresh]}, {"params": body}],
        lr=1e-4,
        weight_decay=0.01,
        fused=DEVICE == "cuda",
    )
    stream = batches_by_length(other.lengths, options.tokens, 2048, rng)
    held_passages = batches_by_length(held.texts.lengths[: held.passages], 16_000, 256, rng)
    held_queries = batches_by_length(held.texts.lengths[held.passages :], 8_000, 256, rng)
    keys = list(packed.groups)
    size = np.array([float(len(packed.groups[key])) for key in keys]) ** 0.75
    is_english = np.array([key[1] == "en" for key in keys])
    size[is_english] *= options.english_pairs / size[is_english].sum()
    size[~is_english] *= (1 - options.english_pairs) / size[~is_english].sum()
    start, step = time.time(), 0
    recent: dict[str, float] = defaultdict(float)
    while (share := (time.time() - start) / options.seconds) < 1:
        warm = min(1.0, (step + 1) / 200) * (0.5 + 0.5 * math.cos(math.pi * share))
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * (0.02 + 0.98 * warm) if step else 1e-7
        passages = step % 3 != 2
        some = next(held_passages) if passages else next(held_queries) + held.passages
        ids, _ = held.texts.batch(some)
        ids = ids.clamp(max=len(lessons.teacher.idf) - 1)
        hold = lessons.english_loss(ids, 0 if passages else len(lessons.prefix))
        if share < options.translation_share or step % 2:
            rows = next(stream)
            ids, _ = other.batch(rows)
            at = torch.from_numpy(rows).to(DEVICE)
            there, _ = english.batch(rows[:160])
            query = step % 4 in (1, 2)
            loss = lessons.translation_loss(
                ids,
                goals[query][at].float(),
                there.clamp(max=len(lessons.teacher.idf) - 1),
                number[at],
                query=query,
                some=160,
            )
            name = "translation"
        else:
            key = keys[rng.choice(len(keys), p=size)]
            rows = packed.groups[key]
            rows = rng.choice(rows, min(options.batch, len(rows)), replace=False)
            loss, name = lessons.retrieval_loss(packed, rows), "retrieval"
        optimizer.zero_grad(set_to_none=True)
        (loss + options.english_weight * hold).backward()
        nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 20 == 0:
            recent[name] = 0.9 * recent[name] + 0.1 * loss.item() if recent[name] else loss.item()
            recent["hold"] = 0.9 * recent["hold"] + 0.1 * hold.item()
        if step % 400 == 0:
            log(options.name, step, {k: round(v, 3) for k, v in recent.items()})
    log(options.name, step, "steps", {k: round(v, 3) for k, v in recent.items()})


def save(student: Student, path: Path) -> None:
    """The weights, without the English word embeddings, which have not changed."""
    state = {
        name: value.half().cpu()
        for name, value in student.encoder.state_dict().items()
        if name != "bert.words.weight"
    }
    limit = student.english.abs().max()
    state["fresh_scale"] = (limit / 127).cpu()
    levels = (student.fresh.detach().clamp(-limit, limit) / limit * 127).round()
    state["fresh"] = levels.to(torch.int8).cpu()
    torch.save(state, path)


if __name__ == "__main__":
    main()
