import * as z from "zod";
import { anyJson, anyObject, closedObject, duration, filledText } from "../config/config-fields.ts";
import { asObject } from "../json.ts";
import type { Json } from "../model.ts";
import {
  asWhole,
  commonFields,
  jsonExpectations,
  textExpectation,
  textParts,
  timeoutField,
  variables,
} from "./step-fields.ts";

/**
 * Reads permission bits: a text of octal digits such as `0644`, or a number whose decimal digits are octal ones, since
 * YAML reads `0644` as the number 644. Undefined for anything else, and for a number that looks like bits written as
 * `0o644`: one whose digits would give others what the owner lacks.
 */
export function parseFileMode(value: unknown): number | undefined {
  if (typeof value === "string") return /^0?o?[0-7]{3}$/.test(value) ? bitsOf(value.slice(-3)) : undefined;
  if (typeof value !== "number" || !/^[0-7]{3}$/.test(String(value))) return undefined;
  const bits = bitsOf(String(value));
  return isSensible(bits) && value !== fullAccess ? bits : undefined;
}

/** The bits 777, as a number: written in digits it looks like the bits 511. */
const fullAccess = 0o777;

function bitsOf(digits: string): number {
  return Number.parseInt(digits, 8);
}

function isSensible(bits: number): boolean {
  const owner = bits >> 6;
  const others = ((bits >> 3) | bits) & 7;
  return (owner & 4) !== 0 && (others & ~owner) === 0;
}

const env = variables.default({}).meta({
  description: "Variables for the process, besides those of `spec.env`.",
});

const commandExpectation = closedObject({
  exitCode: z.int().default(0).meta({ description: "With what the shell must exit." }),
  stdout: textExpectation
    .optional()
    .meta({ description: "What it must write; a text alone is the whole of it." }),
  stderr: textExpectation.optional().meta({ description: "The same for its errors." }),
}).meta({
  id: "CommandExpectation",
  title: "Command expectation",
  description: "What a command must do.",
});

/** `command`. */
export const commandSchema = closedObject({
  run: filledText.meta({ description: "The line, or lines, for the shell." }),
  shell: filledText.optional().meta({
    description: "The shell.",
    defaultText: "the variable `SHELL`, else `/bin/sh`",
  }),
  workdir: filledText.optional().meta({
    description: "Where it runs, relative to the task's folder.",
    defaultText: "the task's folder",
  }),
  env,
  stdin: z.string().optional().meta({ description: "What it gets on stdin.", defaultText: "nothing" }),
  expect: commandExpectation.prefault({}).meta({ description: "What it must do." }),
  timeout: timeoutField("60s"),
  ...commonFields,
}).meta({
  id: "CommandStep",
  title: "Step command",
  description:
    "Runs a line in the shell. Its `outputs` may use `{stdout}`, `{stderr}` (without line ends after the last line) and `{exitCode}`. What it leaves running in the background ends with the trial.",
});

const status = z.union([
  z.int().min(100).max(599),
  z.string().regex(/^[1-5]xx$/, { error: 'must be a status such as 200, or a class such as "2xx"' }),
]);

const presentJson = z.custom<Json>((value) => value !== undefined, { error: "any JSON value" });

const httpExpectation = closedObject({
  status: z
    .union([status, z.array(status).min(1)])
    .default("2xx")
    .meta({ description: "A status, a class such as `2xx`, or a list of which one must fit." }),
  headers: z.record(filledText, textExpectation).optional().meta({
    description: "What headers must be, by name; a text alone is the whole of it.",
  }),
  body: textExpectation
    .optional()
    .meta({ description: "What the body must be; a text alone is the whole of it." }),
}).meta({ id: "HttpExpectation", title: "HTTP expectation", description: "What the answer must be." });

/** `http`. */
export const httpSchema = closedObject({
  url: filledText.meta({ description: "Address that begins with `http://` or `https://`." }),
  method: filledText.default("GET").meta({ description: "Any method." }),
  headers: z.record(filledText, z.string()).default({}).meta({ description: "Headers of the request." }),
  body: z
    .union([z.string(), closedObject({ json: presentJson.meta({ description: "Any JSON value." }) })])
    .optional()
    .meta({
      description: "A text, or `{json: …}` for any JSON value, which also sets `content-type`.",
      defaultText: "none",
    }),
  expect: httpExpectation.prefault({}).meta({ description: "What must come back." }),
  timeout: timeoutField("30s"),
  ...commonFields,
}).meta({
  id: "HttpStep",
  title: "Step http",
  description:
    "Sends one HTTP request; redirects are followed. Its `outputs` may use `{response.body}`, `{response.status}` and `{response.headers.NAME}`.",
});

const fileMode = z
  .custom<number | string>(
    (value) => parseFileMode(value) !== undefined,
    asWhole('must be permission bits as octal digits, best as a text: "0644"'),
  )
  .transform((value) => parseFileMode(value) ?? 0)
  .meta({
    id: "FileMode",
    title: "File mode",
    description:
      'Permission bits as octal digits: `"0644"`, or a number whose digits are those, `644`. YAML reads `0o644` as another number: do not write it so.',
    type: ["number", "string"],
    examples: ["0644", "0755"],
  });

const fileExpectation = closedObject({
  exists: z.boolean().default(true).meta({ description: "Whether it is there." }),
  ...textParts,
  mode: fileMode.optional().meta({ description: "Its permission bits." }),
})
  .refine(
    (value) => value.exists || Object.keys(value).length === 1,
    asWhole("must not have anything else when exists is false"),
  )
  .meta({ id: "FileExpectation", title: "File expectation", description: "What a file must be." });

const fileUses = ["content", "absent", "expect"] as const;

/** Says which of the keys are there, when there are several. */
function fileUseError(value: unknown): string {
  const uses = "content (make the file), absent (remove it) and expect (look at it)";
  const given = fileUses.filter((key) => asObject(value)[key] !== undefined);
  const all = given.length === 2 ? `both ${given.join(" and ")}` : given.join(", ");
  return given.length === 0 ? `must have one of ${uses}` : `has ${all}: only one of ${uses} may be there`;
}

/** `file`. */
export const fileSchema = closedObject({
  path: filledText.meta({ description: "Relative to the task's folder, or inside `{workspace}`." }),
  content: z
    .string()
    .optional()
    .meta({ description: "Makes the file, with this in it; folders above it are made too." }),
  mode: fileMode.optional().meta({
    description: "Permission bits of the file that is made.",
    defaultText: "`0644`",
  }),
  absent: z.literal(true).optional().meta({
    description:
      "Removes what is there, in the workspace also a folder with all in it. Nothing there is fine.",
  }),
  expect: fileExpectation.optional().meta({ description: "Looks at the file." }),
  timeout: timeoutField("30s"),
  ...commonFields,
})
  .refine((value) => fileUses.filter((key) => value[key] !== undefined).length === 1, asWhole(fileUseError))
  .refine(
    (value) => value.mode === undefined || value.content !== undefined,
    asWhole("has mode, which needs content"),
  )
  .meta({
    oneOf: [{ required: ["content"] }, { required: ["absent"] }, { required: ["expect"] }],
    id: "FileStep",
    title: "Step file",
    description:
      "Makes, removes or looks at a file: exactly one of `content`, `absent` and `expect`. Its `outputs` may use `{content}`.",
  });

/** `llm`. */
export const llmSchema = closedObject({
  contains: filledText.optional().meta({ description: "What the text must say, in any words." }),
  exact: filledText.optional().meta({ description: "What the text must say, no more and no less." }),
  rubric: filledText.optional().meta({
    description:
      "How the text is to be judged; it passes from the judge's `passThreshold` on, 0.8 unless set.",
  }),
  input: z.string().optional().meta({ description: "What is judged.", defaultText: "the agent's output" }),
  timeout: timeoutField("60s"),
  ...commonFields,
})
  .refine(
    (value) => [value.contains, value.exact, value.rubric].some((text) => text !== undefined),
    asWhole("must have contains, exact or rubric"),
  )
  .meta({
    anyOf: [{ required: ["contains"] }, { required: ["exact"] }, { required: ["rubric"] }],
    id: "LlmStep",
    title: "Step llm",
    description:
      "Asks the eval's judge about a text; only in verify. At least one of `contains`, `exact` and `rubric`. Its `outputs` may use `{score}` and `{reason}`.",
  });

/** `script`. */
export const scriptSchema = closedObject({
  file: filledText.optional().meta({
    description:
      "The program, relative to the task's folder. It is started itself when it is executable, else by what its `#!` line names, else by the shell.",
  }),
  inline: filledText.optional().meta({
    description: "Its text. A first line such as `#!/usr/bin/env python3` chooses what runs it.",
  }),
  args: z.array(z.string()).default([]).meta({ description: "Its arguments." }),
  env,
  protocol: z.enum(["exit-code", "json"]).default("exit-code").meta({
    description:
      "`exit-code`: it passes when it exits with 0. `json`: it gets the trial as JSON on stdin and answers with JSON on stdout.",
  }),
  timeout: timeoutField("300s"),
  ...commonFields,
})
  .refine(
    (value) => (value.file === undefined) !== (value.inline === undefined),
    asWhole("must have either file or inline"),
  )
  .meta({
    oneOf: [{ required: ["file"] }, { required: ["inline"] }],
    id: "ScriptStep",
    title: "Step script",
    description:
      "Runs a program of the task's own: exactly one of `file` and `inline`. With `protocol: json` its `outputs` come from its answer; others may use `{stdout}`, `{stderr}` and `{exitCode}`.",
  });

const mcpExpectation = closedObject({
  isError: z
    .boolean()
    .optional()
    .meta({ description: "Whether the call must fail.", defaultText: "`false`" }),
  text: textExpectation.optional().meta({
    description: "What the text of the result must be; a text alone is the whole of it.",
  }),
  json: jsonExpectations.optional().meta({
    description:
      "What must hold of the structured content, else of the text as JSON; of a resource or prompt, of the whole result.",
  }),
  schema: anyObject.optional().meta({ description: "JSON Schema of the same." }),
}).meta({ id: "McpExpectation", title: "MCP expectation", description: "What the result must be." });

const mcpExpect = mcpExpectation.prefault({}).meta({ description: "What the answer must be." });
const mcpTimeout = timeoutField("30s");
const mcpOutputs = "Its `outputs` may use `{result}` and `{text}`.";

/** The keys that say what an `mcp` step or a solution's `mcp` asks of a server. */
export const mcpRequestFields = {
  server: filledText.optional().meta({
    description: "Name of the server.",
    defaultText: "the one that offers the tool, or the only one",
  }),
  tool: filledText.optional().meta({ description: "The tool to call." }),
  resource: filledText.optional().meta({ description: "URI of the resource to read." }),
  prompt: filledText.optional().meta({ description: "The prompt to get." }),
  args: anyObject.optional().meta({ description: "Arguments of the tool or prompt.", defaultText: "`{}`" }),
};

interface Asked {
  readonly tool?: string | undefined;
  readonly resource?: string | undefined;
  readonly prompt?: string | undefined;
  readonly args?: object | undefined;
}

/** Whether exactly one thing is asked for. */
export function asksOne({ tool, resource, prompt }: Asked): boolean {
  return [tool, resource, prompt].filter((each) => each !== undefined).length === 1;
}

/** Whether arguments are given only where there can be some. */
export function argsFit({ resource, args }: Asked): boolean {
  return resource === undefined || args === undefined;
}

export const asksOneError = asWhole("must have one of tool, resource and prompt");
export const argsFitError = asWhole("must not have args: a resource takes none");

/** `mcp`. */
export const mcpSchema = closedObject({
  ...mcpRequestFields,
  expect: mcpExpect,
  timeout: mcpTimeout,
  ...commonFields,
})
  .refine(asksOne, asksOneError)
  .refine(argsFit, argsFitError)
  .meta({
    oneOf: [{ required: ["tool"] }, { required: ["resource"] }, { required: ["prompt"] }],
    id: "McpStep",
    title: "Step mcp",
    description: `Asks a server by itself, without the agent: exactly one of \`tool\`, \`resource\` and \`prompt\`. ${mcpOutputs}`,
  });

/** `SERVER.TOOL`. */
export const toolCallSchema = closedObject({
  args: anyObject.default({}).meta({ description: "Arguments of the tool." }),
  expect: mcpExpect,
  timeout: mcpTimeout,
  ...commonFields,
}).meta({
  id: "ToolCallStep",
  title: "Step SERVER.TOOL",
  description: `Short for \`mcp\` with a server and a tool. ${mcpOutputs}`,
});

const extensionTimeout = duration.optional().meta({
  description: "Longest that one attempt may take.",
  defaultText: "`extensions.timeout` of the eval, else `5m`",
});

/** `extension`. */
export const extensionSchema = closedObject({
  package: filledText.meta({ description: "The extension: its alias in `imports`, or its package." }),
  action: filledText.meta({ description: "The operation." }),
  args: anyObject.default({}).meta({ description: "Its arguments." }),
  timeout: extensionTimeout,
  ...commonFields,
}).meta({
  id: "ExtensionStep",
  title: "Step extension",
  description: "An operation of an extension. Its outputs are those that the operation gives.",
});

const { name: _, ...operationFields } = commonFields;

/** The keys of `ALIAS.OPERATION` that are the step's own. */
export const operationSchema = closedObject({ timeout: extensionTimeout, ...operationFields })
  .catchall(anyJson)
  .meta({
    id: "OperationStep",
    title: "Step ALIAS.OPERATION",
    description:
      "Short for `extension`. Every key that is not listed here, `name` included, is an argument of the operation; an argument of a name that is listed needs the long form.",
  });
