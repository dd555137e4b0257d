"""Knowledge bases of spacy-krissel whose vectors are searched by a Milvus server or cluster."""
