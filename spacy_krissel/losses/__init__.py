"""Losses: scores of queries with keys, and which keys are positives and negatives of each query.

Every loss is called with `(scores, positives, negatives)`: floats (q, k) and two boolean masks (q, k), disjoint. It
gives the gradient of the scores (q, k) and the loss. A key in neither mask does not count. What the scores are, inner
products, cosines or logits, is the objective's matter: any loss serves any objective. Each loss is one file, and its
class is registered in `setup.cfg` under `thinc_losses`.

| loss | scores | data | used by |
|---|---|---|---|
| `SoftmaxLoss(positives="pairs")` | inner products; cosines, τ 0.05 | one positive each | KRISSBERT, PEL, re-ranking |
| `SoftmaxLoss(positives="mean")` | cosines, τ 0.07 | several positives each | OSLAT |
| `SoftmaxLoss(positives="sum")` | inner products | candidates, any of several is right | BELHD |
| `MultiSimilarity` | cosines | labelled names, several per entity | SapBERT, with `HardPairMiner` |
| `ProxyLoss` | cosines | mentions with entities, sampled negatives | PEL |
| `FocalLoss` | logits | yes or no per pair, mostly no | OSLAT's classifier |
"""
