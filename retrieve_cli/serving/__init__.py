"""HTTP server of an encoder and a cross-encoder, with the APIs of OpenAI, of Jina and Cohere, and of TEI.

    request -> key -> body, within the limits -> JSON -> work -> one computation at a time -> answer

https://platform.openai.com/docs/api-reference/embeddings, https://docs.cohere.com/reference/rerank,
https://huggingface.github.io/text-embeddings-inference
"""
