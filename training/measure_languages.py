"""Quality of a multilingual run, in float: each output alone, on judged and on held-out pairs.

    python -m training.measure_languages WORK NAME.pt|shipped [--queries 200] [--shipped-share 0.2]

Sets: the collections under `WORK/judged`; for every source and language of the pairs, the tenth
that training leaves out, among all passages of that source; dialogues that no training sees; and
XQuAD across languages. Writes `NAME.quality.json`: nDCG@10 of dense, sparse and MaxSim.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from tokenizers import Tokenizer
from torch import Tensor

from training import data
from training.data import held_out_pair
from training.heldout import ndcg
from training.model import Encoder
from training.multilingual import MEASURED_ONLY, Reader, is_content, lines, log
from training.packed import Packed
from training.prepare import DEVICE
from training.shipped import encoder_of, load_encoder
from training.terms import BUCKETS

DEPTH = 100
PASSAGES = 3000  # of a held-out set, those with a query first


@dataclass
class Collection:
    passages: list[str]
    queries: list[str]
    judged: list[dict[str, int]]  # grades by the number of a passage, as text
    english_queries: bool = False
    english_passages: bool = False


def load_student(shipped: Encoder, path: Path, shipped_share: float = 0.0) -> Encoder:
    """A trained encoder: the shipped English word embeddings, then the new ones. Its other weights
    may be mixed with the shipped ones, which keeps English closer to the shipped model."""
    state = torch.load(path, weights_only=True)
    fresh = state.pop("fresh").float() * state.pop("fresh_scale").float()
    state = {name: value.float() for name, value in state.items()}
    for name, value in shipped.state_dict().items():
        if name not in ("idf", "continues", "bert.words.weight"):
            state[name] = (1 - shipped_share) * state[name] + shipped_share * value
    state["bert.words.weight"] = torch.cat([shipped.bert.words.weight.detach(), fresh])
    return encoder_of(state)


def judged_collection(folder: Path, queries_from: Path | None = None) -> Collection:
    corpus = list(data.lines(folder / "corpus.jsonl.gz"))
    place = {row["_id"]: str(number) for number, row in enumerate(corpus)}
    asked = queries_from or folder
    texts = {row["_id"]: row["text"] for row in data.lines(asked / "queries.jsonl.gz")}
    grades = data.judgments(asked, "test")
    grades = {
        query: {place[d]: grade for d, grade in row.items() if d in place}
        for query, row in grades.items()
    }
    kept = [query for query, row in grades.items() if row and query in texts]
    foreign = ("xquad-zh", "cmrc2018", "jsquad", "mdn-ko-heading")
    return Collection(
        [data.passage_text(row) for row in corpus],
        [texts[query] for query in kept],
        [grades[query] for query in kept],
        english_queries=asked.name not in foreign,
        english_passages=folder.name not in foreign,
    )


def held_out_collections(work: Path) -> dict[str, Collection]:
    groups: dict[str, list[dict[str, str]]] = defaultdict(list)
    for name in ("retrieval", "english"):
        for row in lines(work / f"{name}.jsonl.gz"):
            groups[f"{row['source']} {row.get('lang', 'en')}"].append(row)
    collections = {}
    for name, rows in groups.items():
        only = name.split()[0] in MEASURED_ONLY
        rows.sort(key=lambda row: not held_out_pair(row["positive"]))
        passages = list(dict.fromkeys(row["positive"] for row in rows))[:PASSAGES]
        place = {passage: str(number) for number, passage in enumerate(passages)}
        chosen = [
            row
            for row in rows
            if row["positive"] in place and (only or held_out_pair(row["positive"]))
        ]
        if len(chosen) >= 40:
            judged = [{place[row["positive"]]: 1} for row in chosen]
            language = rows[0].get("lang", "en")
            collections[name] = Collection(
                passages,
                [row["query"] for row in chosen],
                judged,
                english_queries=language.startswith("en"),
                english_passages=language == "en",
            )
    return collections


class Measure:
    def __init__(self, english: Encoder, student: Encoder, reader: Reader) -> None:
        self.english, self.student = english.to(DEVICE), student.to(DEVICE)
        self.reader = reader

    @torch.no_grad()
    def encode(
        self, texts: list[str], *, query: bool, english: bool
    ) -> tuple[Tensor, Any, list[Tensor]]:
        encoder = self.english if english else self.student
        rows = self.reader.rows(texts, 64 if query else 384, query=query)
        known = len(encoder.idf)
        rows = [[number if number < known else 100 for number in row] for row in rows]
        pack = Packed(rows, DEVICE)
        pack.add_terms(self.reader.term_arrays(rows))
        dense = torch.zeros(len(rows), 384, device=DEVICE)
        places, weights = [], []
        late: list[Any] = [None] * len(rows)
        order = np.argsort(pack.lengths)
        prefix = len(self.reader.prefix) if query else 0
        for start in range(0, len(order), 128):
            part = order[start : start + 128]
            ids, at = pack.batch(part)
            with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
                vector, passage, asked, tokens = encoder(ids, (ids != 0).long())
            numbers = torch.from_numpy(part).to(DEVICE)
            dense[numbers] = vector.float()
            counts = is_content(encoder, ids, prefix)
            weight = ((asked if query else passage).squeeze(-1).float() * counts).unsqueeze(-1)
            terms = pack.terms_at(ids, at)
            each = (weight * (terms > 0)).flatten()
            key = numbers[:, None, None] * BUCKETS + terms
            places.append(key.flatten()[each > 0])
            weights.append(each[each > 0])
            tokens = F.normalize(tokens.float(), dim=-1).half()
            for number, vectors, count in zip(part, tokens, counts, strict=True):
                late[number] = vectors[count]
        keys, inverse = torch.unique(torch.cat(places), return_inverse=True)
        best = torch.zeros(len(keys), device=DEVICE)
        best = best.scatter_reduce(0, inverse, torch.cat(weights), "amax")
        index = torch.stack([keys // BUCKETS, keys % BUCKETS])
        sparse = torch.sparse_coo_tensor(index, best, (len(rows), BUCKETS))
        return dense, sparse, late

    @torch.no_grad()
    def quality(self, collection: Collection, most: int) -> dict[str, float]:
        step = max(1, len(collection.queries) // most)
        queries, judged = collection.queries[::step], collection.judged[::step]
        dense, sparse, late = self.encode(
            collection.passages, query=False, english=collection.english_passages
        )
        q_dense, q_sparse, q_late = self.encode(
            queries, query=True, english=collection.english_queries
        )
        by_meaning = q_dense @ dense.T
        by_terms = torch.sparse.mm(sparse, q_sparse.to_dense().T).T
        depth = min(DEPTH, len(dense))
        total = dict.fromkeys(("dense", "sparse", "maxsim", "sum"), 0.0)
        for number, grades in enumerate(judged):
            near = by_meaning[number].topk(depth).indices
            terms = by_terms[number].topk(depth).indices
            pool = torch.unique(torch.cat([near, terms]))
            stack = torch.nn.utils.rnn.pad_sequence(
                [late[i] for i in pool.tolist()], batch_first=True
            )
            scores = torch.einsum("id,bjd->bij", q_late[number], stack)
            score = scores.amax(-1).float().mean(-1)
            parts = (by_meaning[number][pool], by_terms[number][pool], score)
            both = sum((x - x.mean()) / x.std().clamp(min=1e-9) for x in parts)
            runs = {
                "dense": near,
                "sparse": terms,
                "maxsim": pool[score.argsort(descending=True)],
                "sum": pool[both.argsort(descending=True)],
            }
            for name, ranked in runs.items():
                ids = [str(i) for i in ranked[:10].tolist()]
                total[name] += ndcg(ids, grades) / len(judged)
        return {name: round(value, 4) for name, value in total.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("weights")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--shipped-share", type=float, default=0.0)
    parser.add_argument("--only", default="", help="names of sets contain this")
    options = parser.parse_args()
    shipped = load_encoder(options.work / "shipped")
    student = english = shipped
    if options.weights != "shipped":
        student = load_student(shipped, Path(options.weights), options.shipped_share)
        english = student
    tokenizer = Tokenizer.from_file(str(options.work / "tokenizer-extended.json"))
    measure = Measure(english, student, Reader(tokenizer))
    judged = options.work / "judged"
    sets = {folder.name: judged_collection(folder) for folder in sorted(judged.iterdir())}
    english, chinese = judged / "xquad-en", judged / "xquad-zh"
    sets["zh question, en passage"] = judged_collection(english, chinese)
    sets["en question, zh passage"] = judged_collection(chinese, english)
    sets |= held_out_collections(options.work)
    results = {}
    for name, collection in sets.items():
        if options.only in name:
            results[name] = measure.quality(collection, options.queries)
            log(name, *results[name].values())
    out = options.work / f"{Path(options.weights).stem}.quality.json"
    out.write_text(json.dumps(results, indent=1))
    languages = defaultdict(list)
    for name, values in results.items():
        languages[name.split()[-1] if name.split()[0] != name else name].append(values["dense"])
    log({name: round(float(np.mean(values)), 3) for name, values in languages.items()})


if __name__ == "__main__":
    main()
