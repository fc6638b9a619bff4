"""An experiment: other languages as a small change of kb-mini, without changing English.

    python -m training.adapted WORK NAME [--seconds 600] [--rate 1e-4] ...

English texts use kb-mini's own weights; texts in other languages use the same weights plus a
low-rank change, new word embeddings, and their own biases, norms and heads (`Student`). So English
vectors stay as they are, to the last bit, and the change for other languages is small on disk.

WORK contains `tokenizer-extended.json` (training.vocabulary), kb-mini under `shipped/`,
`parallel.tsv.xz`, `words.tsv.xz` (training.dictionaries), `retrieval.jsonl.gz`, `english.jsonl.gz`,
`pairs.jsonl.gz` and, optionally, `start.pt`: weights to go on from. A step learns one of these:

- A translation gets the vector that the teacher has for the English sentence, and its token vectors
  match those of the English tokens (`translation_loss`). Words, names, and English sentences some
  of whose words are replaced by Chinese or Japanese ones (`mixed_sentences`) count as translations.
- A query finds its passage among those of the same source and languages, by each output and by
  their sum (`retrieval_loss`). English sides are encoded by the teacher, as they are in use.
- English texts come near to the teacher's outputs: texts in other languages quote English, too.

Writes `NAME.pt`: the changes, in half precision, and the new word embeddings in int8.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.func import functional_call

from training import low_rank
from training.low_rank import State, Tables
from training.mixed_sentences import LANGUAGES, mixed_sentences, phrases
from training.model import Bert, Encoder
from training.multilingual import (
    SENTENCE_TOKENS,
    Held,
    Lessons,
    Pairs,
    Reader,
    alike,
    counted,
    first_embeddings,
    held_texts,
    lines,
    log,
    pack_pairs,
    rarity,
    retrieval_pairs,
    teacher_vectors,
)
from training.packed import Packed, batches_by_length
from training.prepare import DEVICE
from training.shipped import load_encoder
from training.vocabulary import parallel_rows

Pair = tuple[str, str, str, str]  # source, language, query, passage


def mixed_pairs(
    work: Path, pairs: list[Pair], dictionaries: dict[str, dict[str, list[str]]], few: int
) -> list[Pair]:
    """English pairs whose queries have some words in Chinese or Japanese."""
    english = [(pair[0], pair[2], pair[3]) for pair in pairs if pair[1] == "en"]
    english += [
        (row["source"], row["query"], row["positive"]) for row in lines(work / "pairs.jsonl.gz")
    ]
    chosen = english[:: 1000 if few else 3]
    passages = {query: (source, passage) for source, query, passage in chosen}
    return [
        (f"mixed {passages[query][0]}", f"{language}-en", mixed, passages[query][1])
        for query, language, mixed in mixed_sentences(passages, dictionaries, seed=1)
    ]


class Body(nn.Module):
    """The encoder, run on given word embeddings."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, words: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        bert, mask = self.encoder.bert, (ids != 0).long()
        places = torch.arange(ids.shape[1], device=ids.device)
        hidden = bert.norm(words + bert.positions(places) + bert.kinds.weight[0])
        bias = torch.zeros_like(mask, dtype=hidden.dtype).masked_fill(mask == 0, -1e4)
        bias = bias[:, None, None, :].to(torch.bfloat16 if DEVICE == "cuda" else hidden.dtype)
        for layer in bert.layers:
            hidden = layer(hidden, bias)
        return self.encoder.outputs(hidden, ids, mask)


class AdaptedStudent(nn.Module):
    """The teacher's encoder with changes: its large matrices get the product of two small ones
    added, its vectors and heads are learned anew, and there are new word embeddings."""

    def __init__(self, teacher: Encoder, start: State, fresh: Tensor, tables: Tables) -> None:
        super().__init__()
        bert = Bert(len(teacher.bert.layers), vocabulary=1)
        encoder = Encoder(bert, tables.idf, tables.continues, teacher.token_vectors.out_features)
        state = teacher.state_dict() | {"idf": tables.idf, "continues": tables.continues}
        state["bert.words.weight"] = torch.zeros(1, 384)
        encoder.load_state_dict(state)
        self.body = Body(encoder).requires_grad_(False)
        self.fresh = nn.Parameter(fresh)
        self.scales = nn.Parameter(torch.tensor([30.0, 1.0, 30.0]).log())
        self.left, self.right, self.own = (nn.ParameterDict() for _ in range(3))
        for name, value in start.left.items():
            self.left[name.replace(".", "/")] = nn.Parameter(value)
            self.right[name.replace(".", "/")] = nn.Parameter(start.right[name])
        for name, value in start.own.items():
            self.own[name.replace(".", "/")] = nn.Parameter(value)
        self.register_buffer("english", teacher.bert.words.weight.detach().clone())
        self._weights: dict[str, Tensor] = {}

    @property
    def encoder(self) -> Encoder:
        return self.body.encoder

    def merge(self) -> None:
        """Compute the weights for the next step."""
        base = dict(self.encoder.named_parameters())
        self._words = torch.cat([self.english, self.fresh])
        self._weights = {f"encoder.{n.replace('/', '.')}": v for n, v in self.own.items()}
        for key, left in self.left.items():
            name = key.replace("/", ".")
            self._weights[f"encoder.{name}"] = base[name] + left @ self.right[key]

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        words = F.embedding(ids, self._words)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            result: tuple[Tensor, Tensor, Tensor, Tensor] = functional_call(
                self.body, self._weights, (words, ids)
            )
        return result


class AdaptedLessons(Lessons):
    """The lessons, with pairs in two languages whose English side the teacher encodes."""

    student: AdaptedStudent

    def pair_loss(self, pairs: Pairs, rows: Any, languages: str) -> Tensor:
        """Sides in English, of pairs in two languages, are encoded by the teacher. Their terms do
        not match, so they count for nothing there."""
        taught = {True: languages.startswith("en-"), False: languages.endswith("-en")}
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
            known = ids.clamp(max=len(self.teacher.idf) - 1)
            run = self.taught(known) if taught[query] else self.student(ids)
            dense, passage, asked, tokens = run
            counts = counted(self.student.encoder, ids, len(self.prefix) if query else 0)
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
        if "-" in languages:
            del scores[1]
        same = pairs.same[rows][:, None] == pairs.same[rows][None]
        same.fill_diagonal_(False)
        gold = torch.arange(len(rows), device=DEVICE)
        loss = 1e-4 * (qs.sum(-1).mean() + ps.sum(-1).mean())
        for score, weight in zip(
            [*scores, sum(scores)], (1.0,) * len(scores) + (0.5,), strict=True
        ):
            loss = loss + weight * F.cross_entropy(score.masked_fill(same, -1e4), gold)
        return loss


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("name")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument(
        "--translation-share", type=float, default=0.4, help="of the time, at first"
    )
    parser.add_argument("--rate", type=float, default=8e-4, help="of the low-rank changes")
    parser.add_argument("--own-rate", type=float, default=2e-4, help="of vectors and heads")
    parser.add_argument("--fresh-rate", type=float, default=1e-3)
    parser.add_argument("--tokens", type=int, default=40_000, help="tokens of a translation batch")
    parser.add_argument("--batch", type=int, default=160, help="queries of a retrieval batch")
    parser.add_argument("--english-weight", type=float, default=1.0)
    parser.add_argument("--english-pairs", type=float, default=0.04, help="share of English groups")
    parser.add_argument("--mixed-pairs", type=float, default=0.15, help="share of mixed groups")
    parser.add_argument("--few", type=int, default=0, help="this many texts: a rehearsal")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    reader = Reader(Tokenizer.from_file(str(options.work / "tokenizer-extended.json")))
    words = list(parallel_rows(options.work / "words.tsv.xz"))
    rows = list(parallel_rows(options.work / "parallel.tsv.xz"))
    dictionaries = {language: phrases(words, rows, language) for language in LANGUAGES}
    pairs = retrieval_pairs(options.work, options.few)
    pairs += mixed_pairs(options.work, pairs, dictionaries, options.few)
    packed = pack_pairs(reader, pairs)
    log(len(pairs), "pairs in", len(packed.groups), "groups")
    sentences = list(dict.fromkeys(row[0] for row in rows))[::3]
    sentences = sentences[:200] if options.few else sentences
    rows += words + list(mixed_sentences(sentences, dictionaries))
    rows = rows[:: max(1, len(rows) // options.few)] if options.few else rows
    numbers: dict[str, int] = {}
    number = torch.tensor([numbers.setdefault(row[0], len(numbers)) for row in rows]).to(DEVICE)
    english = Packed(reader.rows([row[0] for row in rows], SENTENCE_TOKENS), DEVICE)
    other = Packed(reader.rows([row[2] for row in rows], SENTENCE_TOKENS), DEVICE)
    log(len(rows), "translations")
    held = held_texts(options, reader, pairs)
    log(len(held.texts.lengths), "English texts")
    teacher = load_encoder(options.work / "shipped")
    continues = torch.tensor(reader.terms.continues).float()
    tables = Tables(rarity(reader, teacher, pairs), continues)
    teacher = teacher.to(DEVICE)
    if (options.work / "start.pt").exists():
        packed_start = torch.load(options.work / "start.pt", weights_only=True)
        start, fresh, _ = low_rank.unpack(packed_start)
    else:
        start = low_rank.first_state(teacher)
        words_of_teacher = teacher.bert.words.weight.detach()
        fresh = first_embeddings(words_of_teacher, len(tables.idf), english, other)
    student = AdaptedStudent(teacher, start, fresh, tables).to(DEVICE)
    lessons = AdaptedLessons(student, teacher, reader)
    goals = teacher_vectors(lessons, english, number)
    log("ready")
    learn(options, lessons, rng, (english, other, number, goals), packed, held)
    save(student, options.work / f"{options.name}.pt")
    log("saved")


def learn(
    options: Any, lessons: AdaptedLessons, rng: Any, translations: Any, packed: Pairs, held: Held
) -> None:
    english, other, number, goals = translations
    student = lessons.student
    low_rank = [*student.left.values(), *student.right.values()]
    own = [*student.own.values(), student.scales]
    rates = (options.fresh_rate, options.rate, options.own_rate)
    optimizer = torch.optim.AdamW(
        [{"params": [student.fresh]}, {"params": low_rank}, {"params": own}],
        lr=1e-4,
        weight_decay=0.0,
        fused=DEVICE == "cuda",
    )
    stream = batches_by_length(other.lengths, options.tokens, 2048, rng)
    held_passages = batches_by_length(held.texts.lengths[: held.passages], 16_000, 256, rng)
    held_queries = batches_by_length(held.texts.lengths[held.passages :], 8_000, 256, rng)
    keys = list(packed.groups)
    size = np.array([float(len(packed.groups[key])) for key in keys]) ** 0.75
    is_english = np.array([key[1] == "en" for key in keys])
    is_mixed = np.array([key[1].endswith("-en") for key in keys])
    rest = ~is_english & ~is_mixed
    size[is_english] *= options.english_pairs / size[is_english].sum()
    size[is_mixed] *= options.mixed_pairs / max(1e-9, size[is_mixed].sum())
    size[rest] *= 1 / size[rest].sum()
    size /= size.sum()
    start, step = time.time(), 0
    recent: dict[str, float] = defaultdict(float)
    while (share := (time.time() - start) / options.seconds) < 1:
        warm = min(1.0, (step + 1) / 200) * (0.5 + 0.5 * math.cos(math.pi * share))
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * (0.02 + 0.98 * warm) if step else 1e-7
        student.merge()
        hold = torch.zeros((), device=DEVICE)
        if step % 3 == 0:
            passages = step % 9 != 6
            some = next(held_passages) if passages else next(held_queries) + held.passages
            ids, _ = held.texts.batch(some)
            ids = ids.clamp(max=len(lessons.teacher.idf) - 1)
            hold = lessons.english_loss(ids, 0 if passages else len(lessons.prefix))
        if share < options.translation_share or step % 2:
            rows = next(stream)
            ids, _ = other.batch(rows)
            at = torch.from_numpy(rows).to(DEVICE)
            there, _ = english.batch(rows[:224])
            query = step % 4 in (1, 2)
            loss = lessons.translation_loss(
                ids,
                goals[query][at].float(),
                there.clamp(max=len(lessons.teacher.idf) - 1),
                number[at],
                query=query,
                some=224,
            )
            name = "translation"
        else:
            key = keys[rng.choice(len(keys), p=size)]
            rows = packed.groups[key]
            rows = rng.choice(rows, min(options.batch, len(rows)), replace=False)
            loss, name = lessons.pair_loss(packed, rows, key[1]), "retrieval"
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


def save(student: AdaptedStudent, path: Path) -> None:
    """What has been learned; the teacher's weights are shipped already."""
    parts = (student.left, student.right, student.own)
    state = State(*({n.replace("/", "."): v.detach() for n, v in part.items()} for part in parts))
    encoder = student.encoder
    limit = float(student.english.abs().max())
    tables = Tables(encoder.idf, encoder.continues)
    torch.save(low_rank.pack(state, student.fresh.detach(), limit, tables), path)


if __name__ == "__main__":
    main()
