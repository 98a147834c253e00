import { existsSync } from "node:fs";
import axe from "axe-core";
import { type Browser, chromium, type Page } from "playwright-core";

const program = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) =>
  existsSync(path),
);
export const hasBrowser: boolean = program !== undefined;
if (!hasBrowser) console.warn("not tried, since there is no Chromium here: the pages of the dashboard");

export async function startBrowser(): Promise<Browser> {
  return await chromium.launch({ executablePath: program ?? "", args: ["--no-sandbox"] });
}

export interface Look {
  readonly theme: "light" | "dark";
  /** In pixels. */
  readonly width: number;
}

/** A page of a dashboard, with all that went wrong in it: errors, messages of the console, requests to elsewhere. */
export interface OpenPage extends AsyncDisposable {
  readonly page: Page;
  readonly problems: readonly string[];
  /** Goes to a page of the app, and waits until it has its data. */
  readonly go: (path: string) => Promise<void>;
}

/** Opens a dashboard at an address with its token. */
export async function openPage(browser: Browser, address: string, { theme, width }: Look): Promise<OpenPage> {
  const context = await browser.newContext({ colorScheme: theme, viewport: { width, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const problems: string[] = [];
  const { origin } = new URL(address);
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith("data:")) problems.push(request.url());
  });
  const settled = async (): Promise<void> => {
    await page.locator("main :is(h1, [role=alert], table, p)").first().waitFor();
    await page.getByText(/^Loading /).waitFor({ state: "detached" });
  };
  await page.goto(address);
  await settled();
  return {
    page,
    problems,
    async go(path: string) {
      await page.goto(`${origin}/#${path}`);
      await settled();
    },
    [Symbol.asyncDispose]: () => context.close(),
  };
}

/** What axe has against the page, a line for each kind of problem. */
export async function accessibilityProblems(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  return await page.evaluate(async () => {
    const { violations } = await (globalThis as unknown as { readonly axe: typeof axe }).axe.run();
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0]?.html ?? ""}`);
  });
}
