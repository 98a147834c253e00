import { describeEval } from "mcpvals/vitest";

describeEval("mcp-eval.config.yaml");
