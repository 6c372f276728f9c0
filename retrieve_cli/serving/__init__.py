"""An encoder and a scorer of pairs behind HTTP, in the forms of OpenAI, of Jina and Cohere, and of TEI.

    request -> key -> body, within the limits -> JSON -> what is asked -> one computation at a time -> answer

https://platform.openai.com/docs/api-reference/embeddings, https://docs.cohere.com/reference/rerank,
https://huggingface.github.io/text-embeddings-inference
"""
