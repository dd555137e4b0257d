"""Losses over scores of queries with keys, given the positives and negatives of each query.

Every loss is called with `(scores, positives, negatives)`: floats (q, k) and two disjoint boolean
masks (q, k). It returns the gradient of the scores (q, k) and the loss. A key in neither mask is
ignored. The objective defines the scores (inner products, cosines or logits): any loss serves any
objective. Each loss is one file, and its class is registered in `setup.cfg` under `thinc_losses`.

| loss | scores | data | used by |
|---|---|---|---|
| `SoftmaxLoss`, "pairs" | inner products; cosines, τ 0.05 | one positive | KRISSBERT, PEL, re-ranking |
| `SoftmaxLoss`, "mean" | cosines, τ 0.07 | several positives each | OSLAT |
| `SoftmaxLoss`, "sum" | inner products | candidates, any of several is correct | BELHD |
| `MultiSimilarity` | cosines | labelled names, several per entity | SapBERT (`HardPairMiner`) |
| `ProxyLoss` | cosines | mentions with entities, sampled negatives | PEL |
| `FocalLoss` | logits | yes or no per pair, mostly no | OSLAT's classifier |
"""  # noqa: E501
