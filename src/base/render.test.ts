import { expect, it } from "vitest";
import { type Diagnostic, McpvalsError, renderError } from "./error.ts";

const unknownKey: Diagnostic = {
  code: "config/unknown-key",
  message: 'unknown key "comand" in server',
  location: { file: "mcp-eval.config.yaml", line: 2, column: 3, path: "server.comand" },
  hint: 'Did you mean "command"?',
  frame: "  1 | server:\n> 2 |   comand: node\n    |   ^^^^^^",
};

it("shows place, message, code, frame and hint", () => {
  const error = new McpvalsError("config/unknown-key", "…", { diagnostics: [unknownKey] });
  expect(renderError(error))
    .toBe(`mcp-eval.config.yaml:2:3: error unknown key "comand" in server (config/unknown-key)
    1 | server:
  > 2 |   comand: node
      |   ^^^^^^
  hint: Did you mean "command"?`);
});

it("shows all problems of a file and counts them", () => {
  const other: Diagnostic = { code: "config/nothing-to-run", message: "there is nothing to run" };
  const error = new McpvalsError("config/unknown-key", "…", { diagnostics: [unknownKey, other] });
  expect(renderError(error)).toMatch(
    /^mcp-eval\.config\.yaml:2:3: error [^]*\n\nerror there is nothing to run \(config\/nothing-to-run\)\n\n2 problems$/,
  );
});

it.each([
  [100, ""],
  [101, "… and 1 more\n\n"],
  [130, "… and 30 more\n\n"],
])("shows at most 100 of %i problems", (length, rest) => {
  const diagnostics = Array.from({ length }, () => unknownKey);
  const text = renderError(new McpvalsError("config/unknown-key", "…", { diagnostics }));
  expect(text.split("unknown key")).toHaveLength(101);
  expect(text.endsWith(`\n\n${rest}${length} problems`)).toBe(true);
});

it("ends no message with a full stop before its code", () => {
  const shown = (message: string): string => renderError(new McpvalsError("extension/not-found", message));
  expect(shown("mcpvals comes with no extension cvs.")).toBe(
    "error mcpvals comes with no extension cvs (extension/not-found)",
  );
  expect(shown("it goes on ...")).toBe("error it goes on ... (extension/not-found)");
});

it("shows an error that stands for itself, with its detail", () => {
  const error = new McpvalsError("server/exited", "the server ended", {
    detail: "one\n\ntwo\n",
    hint: "Look.",
  });
  expect(renderError(error)).toBe(
    "error the server ended (server/exited)\n  │ one\n  │\n  │ two\n  hint: Look.",
  );
});

it("names a file without a line", () => {
  const error = new McpvalsError("config/unreadable", "cannot be read", {
    location: { file: "a.ts", path: "x" },
  });
  expect(renderError(error)).toBe("a.ts: error cannot be read (config/unreadable)");
});

it("lets no text bring its own colours", () => {
  const error = new McpvalsError("server/exited", "red \u001b[31mtext\u0007", { detail: "\u001b[2Jwiped" });
  expect(renderError(error)).toBe("error red text\\x07 (server/exited)\n  │ wiped");
});
