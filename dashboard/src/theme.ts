import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const key = "mcpvals-theme";
const listeners = new Set<() => void>();
let theme: Theme = storedTheme();
applyTheme();
/** Charts draw with colours that they read once. */
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", notify);

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => theme);
}

/** Whether the page is dark now, by the theme or by the system. */
export function useIsDark(): boolean {
  return useSyncExternalStore(subscribe, isDark);
}

export function setTheme(chosen: Theme): void {
  theme = chosen;
  applyTheme();
  try {
    localStorage.setItem(key, chosen);
  } catch {
    // A page without storage forgets the choice.
  }
  notify();
}

function storedTheme(): Theme {
  try {
    const stored = localStorage.getItem(key);
    return stored === "light" || stored === "dark" ? stored : "system";
  } catch {
    return "system";
  }
}

function applyTheme(): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

function isDark(): boolean {
  return theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function notify(): void {
  for (const listener of listeners) listener();
}
