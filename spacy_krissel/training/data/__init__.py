"""Training data: readers, batchers and negatives.

I am a batch of KRISSBERT. `SelfSupervisedCorpus` reads mined mentions and names as `(entity, View)` pairs and puts each
into the reference doc of an `Example` (`examples.view_examples`), with tokens for spaCy's sake only. `PairBatcher`
chooses the examples of my N entities, two each, no two of which share a name. `spacy train` hands me to the linker's
`update`, and that to `ContrastiveObjective.update`, which takes the pairs out again (`examples.linked_mentions`), masks
some mentions, replaces others, and encodes the views. The loss over their vectors is propagated back through the
encoder in chunks (`gradient_cache.update_in_chunks`). Nobody tokenises or cuts a text on this way; the mined view that
becomes a prototype is the one that was trained on.

My sisters: pairs of synonyms (`SynonymCorpus`, `SynonymBatcher`), single gold mentions with their negatives
(`GoldCorpus`, `MentionBatcher`, `Negatives`, `NearestEntities`), documents with entity labels (`TextEntityCorpus`).
Annotated documents carry no views: theirs are cut from the text around their spans, once per step.
"""
