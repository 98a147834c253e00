// A small deployment platform for example tasks: an MCP server over stdio for agents and an HTTP API for checks, with
// the same state in memory.
//
//     node platform.js --port 8080 [--tick 50]
//
// Time passes in ticks of a fixed number of milliseconds; nothing is random, so the same calls lead to the same state.
import { parseArgs } from "node:util";
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { Clock } from "./platform/clock.js";
import { createHttpApi } from "./platform/http-api.js";
import { Platform } from "./platform/platform.js";
import { registerTools } from "./platform/tools.js";

const { values } = parseArgs({
  options: { port: { type: "string" }, tick: { type: "string", default: "50" } },
});
const port = wholeNumber("port", 0, 65_535);
const clock = new Clock(wholeNumber("tick", 1, 60_000));
const platform = new Platform(clock);

const api = createHttpApi(platform);
api.on("error", (error) => {
  console.error(`platform: the HTTP API cannot listen: ${error.message}`);
  process.exit(1);
});
api.listen(port, "127.0.0.1", () => {
  console.error(`platform: HTTP API at http://127.0.0.1:${api.address().port}`);
  serveStdio(() => {
    const server = new McpServer({ name: "platform", version: "1.0.0" });
    registerTools(server, platform);
    return server;
  });
  // The API ends with the process that started it.
  process.stdin.once("end", () => process.exit(0));
});

function wholeNumber(name, least, most) {
  const number = Number(values[name]);
  if (values[name] !== undefined && Number.isInteger(number) && number >= least && number <= most)
    return number;
  console.error(`platform: --${name} takes a whole number from ${least} to ${most}`);
  process.exit(2);
}
