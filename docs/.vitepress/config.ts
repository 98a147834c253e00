import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

/**
 * The site that `npm run docs` makes of the pages as they are: the paths of the site are those of the repository, so that a link
 * between two pages leads to the same place in both.
 */
const root = resolve(import.meta.dirname, "../..");

/** Pages in the order of the sidebar, by patterns; {@link docPages} fails for a page that none matches. */
const groups: Readonly<Record<string, readonly string[]>> = {
  Start: ["README.md", "docs/guide.md", "docs/targets.md", "docs/differences.md"],
  Servers: ["docs/check.md", "docs/security-checks.md", "docs/servers.md"],
  Agents: ["docs/agents.md", "docs/programs.md", "docs/import.md", "docs/measurements.md"],
  Tasks: ["docs/tasks.md", "docs/extensions.md", "docs/waza.md"],
  Results: [
    "docs/graders.md",
    "docs/judges.md",
    "docs/statistics.md",
    "docs/dashboard.md",
    "docs/recordings.md",
    "docs/export.md",
  ],
  "Many machines": ["docs/scaling.md"],
  "In your tests": ["docs/vitest.md"],
  Reference: ["docs/cli.md", "docs/errors.md", "docs/reference/*.md"],
  Examples: ["examples/*/README.md", "extensions/*/README.md"],
  Project: [
    "docs/security.md",
    "docs/architecture.md",
    "CONTRIBUTING.md",
    "AGENTS.md",
    "SECURITY.md",
    "CHANGELOG.md",
  ],
};

interface SidebarGroup {
  readonly text: string;
  readonly items: readonly { readonly text: string; readonly link: string }[];
}

/** The sidebar: the title of each page is its first heading. Throws for a page of `docs` that has no place in it. */
export function docPages(): readonly SidebarGroup[] {
  const placed = new Set<string>();
  const sidebar = Object.entries(groups).map(([text, patterns]) => {
    const pages = patterns.flatMap((pattern) => globSync(pattern, { cwd: root }).toSorted());
    const items = pages.map((page) => {
      placed.add(page);
      const [, title = page] = /^# (.+)$/m.exec(readFileSync(join(root, page), "utf8")) ?? [];
      return { text: title.replaceAll("`", ""), link: page === "README.md" ? "/" : `/${page.slice(0, -3)}` };
    });
    return { text, items };
  });
  const missing = globSync("docs/**/*.md", { cwd: root }).filter((page) => !placed.has(page));
  if (missing.length > 0) throw new Error(`no group of docs/.vitepress/config.ts has ${missing.join(", ")}`);
  return sidebar;
}

/** Files, other than pages, that pages link to, by their paths in the repository. */
const linked = new Set<string>();

/** What is used of markdown-it. */
interface Markdown {
  readonly renderer: {
    readonly rules: Record<string, ((...args: readonly unknown[]) => string) | undefined>;
  };
  readonly core: {
    readonly ruler: {
      push(
        name: string,
        rule: (state: {
          readonly tokens: readonly Token[];
          readonly env: { readonly path?: string };
        }) => void,
      ): void;
    };
  };
}

interface Token {
  readonly type: string;
  readonly children: readonly Token[] | null;
  content: string;
  attrGet(name: string): string | null;
  attrSet(name: string, value: string): void;
}

export default {
  title: "mcpvals",
  description: "Evaluate MCP servers and the agents that use them.",
  srcDir: root,
  srcExclude: [
    "!(README|CHANGELOG|CONTRIBUTING|SECURITY|AGENTS).md",
    "**/node_modules/**",
    "examples/*/*/**",
    "test/**",
    "dashboard/**",
    ".github/**",
    "bench/**",
  ],
  rewrites: { "README.md": "index.md" },
  cleanUrls: false,
  lastUpdated: false,
  markdown: {
    config(md: Markdown) {
      // Vue would take braces in code for expressions.
      const plain = md.renderer.rules["code_inline"];
      md.renderer.rules["code_inline"] = (...args) => plain?.(...args).replace("<code", "<code v-pre") ?? "";
      md.core.ruler.push("links-of-the-repository", ({ tokens, env }) => {
        for (const token of tokens.flatMap((each) => [each, ...(each.children ?? [])])) {
          if (token.type === "link_open") followLink(token, env.path ?? "");
          // Vite looks for a picture beside the page only where its path begins with a dot.
          if (token.type.startsWith("html_"))
            token.content = token.content.replaceAll(/\b(src|srcset)="(?=[\w-]+\/)/g, '$1="./');
        }
      });
    },
  },
  buildEnd({ outDir }: { readonly outDir: string }) {
    for (const path of linked) {
      mkdirSync(dirname(join(outDir, path)), { recursive: true });
      copyFileSync(join(root, path), join(outDir, path));
    }
  },
  themeConfig: {
    sidebar: docPages(),
    search: { provider: "local" },
    outline: { level: [2, 3] },
  },
};

/** Lets a link to a folder lead to its README, and one to a file that is no page to a copy of it beside the site's pages. */
function followLink(token: Token, page: string): void {
  const href = token.attrGet("href") ?? "";
  if (/^(?:[a-z]+:|#|\/)/.test(href)) return;
  const [path = "", anchor] = href.split("#");
  const file = resolve(dirname(page), decodeURI(path));
  if (!existsSync(file)) return;
  if (statSync(file).isDirectory()) {
    // A folder without a page has no place in the site.
    const isPage = existsSync(join(file, "README.md"));
    const end = anchor === undefined ? "" : `#${anchor}`;
    token.attrSet("href", isPage ? `${path.replace(/\/$/, "")}/README.md${end}` : "#");
  } else if (!file.endsWith(".md")) {
    const own = file.slice(root.length + 1);
    linked.add(own);
    token.attrSet("href", `/${own}`);
    token.attrSet("target", "_self");
  }
}
