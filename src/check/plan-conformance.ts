import { asObject } from "../core/formats/json.ts";
import type {
  ConformancePlan,
  ConformanceSuite,
  ServerSpec,
  SkippedScenario,
} from "../core/formats/model.ts";
import type { Surface } from "../core/lint/check-view.ts";
import { listScenarios } from "./conformance-suite.ts";

/** What a server must have before a scenario says anything about it. */
interface Need {
  /** The path of a capability. */
  readonly capability?: readonly string[];
  /** The suite's own fixtures: names of a tool and a prompt, the URI of a resource, the start of a template of URIs. */
  readonly tool?: string;
  readonly prompt?: string;
  readonly resource?: string;
  readonly template?: string;
  /** The scenario is about the transport, and for a program that would be mcpvals' own. */
  readonly http?: true;
}

/** The scenarios of the suite that are known, by name, with what each needs. */
const needs: Readonly<Record<string, Need | { readonly never: string }>> = {
  "server-initialize": {},
  ping: {},
  "logging-set-level": { capability: ["logging"] },
  "completion-complete": { capability: ["completions"], prompt: "test_prompt_with_arguments" },
  "tools-list": { capability: ["tools"] },
  "tools-call-simple-text": { tool: "test_simple_text" },
  "tools-call-image": { tool: "test_image_content" },
  "tools-call-audio": { tool: "test_audio_content" },
  "tools-call-embedded-resource": { tool: "test_embedded_resource" },
  "tools-call-mixed-content": { tool: "test_multiple_content_types" },
  "tools-call-with-logging": { tool: "test_tool_with_logging" },
  "tools-call-error": { tool: "test_error_handling" },
  "tools-call-with-progress": { tool: "test_tool_with_progress" },
  "tools-call-sampling": { tool: "test_sampling" },
  "tools-call-elicitation": { tool: "test_elicitation" },
  "elicitation-sep1034-defaults": { tool: "test_elicitation_sep1034_defaults" },
  "elicitation-sep1330-enums": { tool: "test_elicitation_sep1330_enums" },
  "json-schema-2020-12": { tool: "json_schema_2020_12_tool" },
  "server-sse-polling": { http: true, tool: "test_reconnection" },
  "server-sse-multiple-streams": { http: true, capability: ["tools"] },
  "resources-list": { capability: ["resources"] },
  "resources-read-text": { resource: "test://static-text" },
  "resources-read-binary": { resource: "test://static-binary" },
  "resources-templates-read": { template: "test://template/" },
  "resources-subscribe": { capability: ["resources", "subscribe"], resource: "test://watched-resource" },
  "resources-unsubscribe": { capability: ["resources", "subscribe"], resource: "test://watched-resource" },
  "prompts-list": { capability: ["prompts"] },
  "prompts-get-simple": { prompt: "test_simple_prompt" },
  "prompts-get-with-args": { prompt: "test_prompt_with_arguments" },
  "prompts-get-embedded-resource": { prompt: "test_prompt_with_embedded_resource" },
  "prompts-get-with-image": { prompt: "test_prompt_with_image" },
  "dns-rebinding-protection": { never: "the check tries a foreign origin itself (protocol/origin)" },
};

interface PlanOptions {
  readonly surface: Surface;
  readonly transport: ServerSpec["transport"];
  readonly signal: AbortSignal;
}

/**
 * Chooses the scenarios of a suite that say something about a server. Throws McpvalsError `check/conformance-suite`, and the
 * signal's reason.
 */
export async function planConformance(
  suite: ConformanceSuite,
  { surface, transport, signal }: PlanOptions,
): Promise<ConformancePlan> {
  const scenarios: string[] = [];
  const skipped: SkippedScenario[] = [];
  for (const scenario of await listScenarios(suite, signal)) {
    const reason = obstacle(scenario, surface, transport);
    if (reason === undefined) scenarios.push(scenario);
    else skipped.push({ scenario, reason });
  }
  return { suite, scenarios, skipped };
}

/** Why a scenario says nothing about a server; undefined: it does. */
function obstacle(
  scenario: string,
  { capabilities, protocolVersion, tools, prompts, resources, resourceTemplates }: Surface,
  transport: ServerSpec["transport"],
): string | undefined {
  const need = Object.hasOwn(needs, scenario) ? needs[scenario] : undefined;
  if (need === undefined) return "mcpvals does not know what it needs";
  if ("never" in need) return need.never;
  if (protocolVersion === "") return "no version of MCP in which sessions begin with initialize";
  const { http, capability, tool, prompt, resource, template } = need;
  if (http === true && transport === "stdio") return "it is about HTTP";
  if (capability !== undefined && !isDeclared(capabilities, capability))
    return `no capability ${capability.join(".")}`;
  if (tool !== undefined && !tools.some(({ name }) => name === tool)) return `no tool ${tool}`;
  if (prompt !== undefined && !prompts.some(({ name }) => name === prompt)) return `no prompt ${prompt}`;
  if (resource !== undefined && !resources.some(({ name }) => name === resource))
    return `no resource ${resource}`;
  if (template !== undefined && !resourceTemplates.some(({ name }) => name.startsWith(template)))
    return `no template of resources below ${template}`;
  return undefined;
}

function isDeclared(capabilities: unknown, path: readonly string[]): boolean {
  let value: unknown = capabilities;
  for (const key of path) value = asObject(value)[key];
  return value !== undefined && value !== null && value !== false;
}
