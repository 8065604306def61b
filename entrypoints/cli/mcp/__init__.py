"""`postern mcp`: an MCP server for administration, by standard streams. Its tools read and propose; an owner applies on a page. It uses no
MCP library: it speaks JSON-RPC by itself, a line a message, and five methods (docs/decisions/0191).
"""
