import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** One script and one style sheet with fixed names: the dashboard serves them, and the HTML report contains them. */
export default defineConfig({
  plugins: [react(), tailwind()],
  base: "./",
  build: {
    outDir: "../dist/dashboard",
    emptyOutDir: true,
    assetsInlineLimit: 100_000,
    rolldownOptions: {
      output: { entryFileNames: "app.js", assetFileNames: "app[extname]", codeSplitting: false },
    },
  },
});
