export default function Page() {
  return (
    <main>
      <h1>Unit converter</h1>
      <p>
        The MCP server is at <code>/mcp</code>. <a href="/mcpvals">What its evaluation has recorded</a>
      </p>
    </main>
  );
}
