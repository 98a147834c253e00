import { atifTranscript } from "./atif.ts";
import { claudeCodeTranscript } from "./claude-code.ts";
import { codexTranscript } from "./codex.ts";
import { geminiTranscript } from "./gemini.ts";
import { mcpcheckerResults } from "./mcpchecker.ts";
import { opencodeTranscript } from "./opencode.ts";
import type { TranscriptFormat } from "./transcript.ts";
import { wazaResults } from "./waza.ts";

/** Every format of transcripts, one line each. */
export const transcriptFormats: readonly TranscriptFormat[] = [
  claudeCodeTranscript,
  codexTranscript,
  geminiTranscript,
  opencodeTranscript,
  atifTranscript,
  mcpcheckerResults,
  wazaResults,
];
