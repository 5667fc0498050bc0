"""The porting tools as an MCP server (https://modelcontextprotocol.io), for any coding agent.

`root.py` says which paths a tool may touch, `tools.py` what each tool does, `server.py` puts them on standard input and
output. Nothing listens on a port. Needs the extra `torchport[mcp]`.
"""
