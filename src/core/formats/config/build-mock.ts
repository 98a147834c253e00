import type { JsonObject, MockDefinition, MockResponse, MockTool } from "../model.ts";
import { withoutUndefined } from "../without-undefined.ts";
import type { ParsedMock, ParsedMockTool } from "./mock-schema.ts";

type ParsedResponse = ParsedMockTool["responses"][number];

/** Turns a valid mock into the model's. */
export function buildMock({ instructions, tools, resources, prompts, state }: ParsedMock): MockDefinition {
  return withoutUndefined({
    instructions,
    tools: Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, buildTool(tool)])),
    resources: resources.map((resource) =>
      withoutUndefined({ ...resource, name: resource.name ?? resource.uri }),
    ),
    prompts: prompts.map((prompt) =>
      withoutUndefined({ ...prompt, arguments: prompt.arguments.map((each) => withoutUndefined(each)) }),
    ),
    state,
  });
}

function buildTool(tool: ParsedMockTool): MockTool {
  const outputSchema = tool.outputSchema ?? tool.output_schema;
  return withoutUndefined({
    description: tool.description,
    inputSchema: ofObjects(tool.inputSchema ?? tool.input_schema ?? {}),
    outputSchema: outputSchema === undefined ? undefined : ofObjects(outputSchema),
    responses: tool.responses.map(buildResponse),
  });
}

function ofObjects(schema: JsonObject): JsonObject {
  return { type: "object", ...schema };
}

function buildResponse(response: ParsedResponse): MockResponse {
  return withoutUndefined({
    match: response.match,
    matchSchema: response.matchSchema ?? response.match_schema,
    matchRegex: response.matchRegex ?? response.match_regex,
    when: response.when,
    set: response.set,
    latencyMs: response.latency,
    answer: answerOf(response),
  });
}

function answerOf({
  error,
  protocolError,
  malformed,
  silence,
  ...rest
}: ParsedResponse): MockResponse["answer"] {
  if (error !== undefined) return { kind: "error", message: error };
  if (protocolError !== undefined) return { kind: "protocol-error", ...protocolError };
  if (malformed !== undefined) return { kind: "malformed", text: malformed };
  return silence === true ? { kind: "silence" } : { kind: "return", value: rest.return ?? null };
}
