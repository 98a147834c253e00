import { expect, it } from "vitest";
import { nameOfCommand, nameOfUrl } from "./target.ts";

it.each([
  ["node node_modules/@modelcontextprotocol/server-everything/dist/index.js", "server-everything"],
  ["npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /tmp", "server-filesystem"],
  ["npx mcp-sqlite-tools", "mcp-sqlite-tools"],
  ["npm exec weather@latest", "weather"],
  ["node packages/weather/dist/index.js", "weather"],
  ["node --import tsx src/index.ts", "project"],
  ["node dist/calculator.js --verbose", "calculator"],
  ["python3 -m weather_server", "weather_server"],
  ["uv run weather.py", "weather"],
  ["uvx mcp-server-git==1.0", "mcp-server-git==1.0"],
  ["docker run -i --rm -e TOKEN ghcr.io/github/github-mcp-server:latest stdio", "github-mcp-server"],
  ["./bin/weather", "weather"],
  ["C:\\tools\\weather.exe", "weather"],
  ["node_modules/.bin/mcp-server-memory", "mcp-server-memory"],
  ["node -e import('./server.js')", "project"],
  ["node", "project"],
])("%s is %s", (command, name) => {
  expect(nameOfCommand(command.split(" "), "/home/me/project/src")).toBe(name);
});

it.each([
  ["https://user@mcp.example.com/mcp?a=b", "mcp.example.com"],
  ["http://localhost:3000/sse", "localhost:3000"],
  ["https://example.com/notes/mcp", "example.com/notes"],
  ["https://example.com/api/mcp/s/bXktc2VjcmV0LXRva2Vu/mcp", "example.com/api"],
  ["https://example.com/token/lighthouse/mcp", "example.com/token"],
])("%s is %s", (url, name) => {
  expect(nameOfUrl(url)).toBe(name);
});
