// An MCP server of a small issue tracker: three issues in memory.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const issues = new Map([
  [17, { number: 17, title: "Crash when the list is empty", state: "open", labels: ["bug"] }],
  [18, { number: 18, title: "Crash on an empty list", state: "open", labels: [] }],
  [19, { number: 19, title: "Translate the help", state: "open", labels: ["docs"] }],
]);

serveStdio(() => {
  const server = new McpServer({ name: "tracker", version: "1.0.0" });
  server.registerTool(
    "search_issues",
    {
      description: "Finds open issues whose title has a text, upper and lower case alike.",
      inputSchema: z.object({ text: z.string() }),
    },
    ({ text }) =>
      json(
        [...issues.values()].filter((issue) => isOpen(issue) && has(issue.title, text)).map(withoutLabels),
      ),
  );
  server.registerTool(
    "get_issue",
    { description: "Gives one issue.", inputSchema: z.object({ number: z.int() }) },
    ({ number }) => withIssue(number, json),
  );
  server.registerTool(
    "close_issue",
    {
      description: "Closes an issue, as the duplicate of another one where that is given.",
      inputSchema: z.object({ number: z.int(), duplicateOf: z.int().optional() }),
    },
    ({ number, duplicateOf }) =>
      withIssue(number, (issue) => {
        issue.state = "closed";
        issue.duplicateOf = duplicateOf;
        return json(issue);
      }),
  );
  return server;
});

function isOpen({ state }) {
  return state === "open";
}

function has(title, text) {
  return title.toLowerCase().includes(text.toLowerCase());
}

function withoutLabels({ number, title, state }) {
  return { number, title, state };
}

function withIssue(number, answer) {
  const issue = issues.get(number);
  return issue === undefined ? { ...text(`there is no issue ${number}`), isError: true } : answer(issue);
}

function json(value) {
  return text(JSON.stringify(value));
}

function text(value) {
  return { content: [{ type: "text", text: value }] };
}
