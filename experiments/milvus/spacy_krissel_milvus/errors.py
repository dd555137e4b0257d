"""Messages of the plugin, with codes that spacy-krissel does not use."""


class Errors:
    K540 = (
        "[K540] The 'milvus' index needs the package pymilvus, which is not installed. Install it: "
        "pip install pymilvus"
    )
    K541 = (
        "[K541] Milvus at '{address}' did not answer, or refused: {problem}. Check that it runs "
        "there, that the environment variable '{token_env}' holds its token if it asks for one, "
        "and that it knows the index's type, index_params and search_params."
    )
    K542 = (
        "[K542] The collection '{collection}' of Milvus at '{address}' does not hold the vectors "
        "of this knowledge base: {problem}. Name the address that has it as the index's 'uri'. Or "
        "drop that collection, or choose another 'collection', and write the knowledge base again "
        "with: python -m spacy krissel prototypes"
    )
