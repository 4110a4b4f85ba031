/// <reference types="vitest/config" />
import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { precompress } from "./build/precompress.ts";
import { preloadFonts } from "./build/preload-fonts.ts";

// In development Vite serves the app and hands everything that Basalt answers on to it, so that the
// browser sees one origin, as it does when Basalt serves the built app itself.
const server = process.env.BASALT_URL ?? "http://127.0.0.1:8000";
const proxy = {
  "^/(rest|auth|storage|realtime|functions)/v1": { target: server, ws: true },
  "/app-config.json": { target: server },
};

const kit = new RegExp(
  [
    "node_modules/(?:class-variance-authority|clsx|tailwind-merge|@radix-ui/react-(?:slot|compose-refs|primitive))/",
    "node_modules/lucide-react/.*/arrow-right\\.",
    "src/components/(?:ui/(?:button|card|skeleton|spinner)|page-state|lazy-part|logo)\\.tsx",
    "src/features/(?:auth/(?:auth-context|deliberate-sign-out)|billing/pending-plan|members/invitation)\\.tsx?",
    "src/lib/(?:bytes|cn|errors|safe-url|session-storage|mail-link|app-config|public-rows|fields|toast)\\.ts",
    "src/hooks/use-(?:document-title|online|near|live-public-rows|theme)\\.ts",
  ].join("|"),
);
// As the kit, for what the landing page does without.
const screenKit = new RegExp(
  [
    "node_modules/@radix-ui/react-label/",
    "src/components/(?:ui/(?:label|badge|alert)|columns-chart|page-heading|submit-button)\\.tsx",
    "src/lib/(?:money|progress|plan-role|chart-columns|titles|random-uuid)\\.ts",
    "src/hooks/use-(?:is-mobile|focus-return)\\.ts",
  ].join("|"),
);

export default defineConfig({
  plugins: [
    react(),
    tailwindcss(),
    preloadFonts([/inter-latin-wght-normal/, /fraunces-latin-wght-normal/]),
    precompress(),
  ],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  server: { proxy },
  preview: { proxy },
  build: {
    target: "es2023",
    // Everything is a file of its own: data: URLs would be one more thing for the content policy to allow.
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        // The first script lists the name of every other one: a character less is 0.1 kB of each page's budget.
        chunkFileNames: "assets/[name]-[hash:7].js",
        assetFileNames: "assets/[name]-[hash:7][extname]",
        codeSplitting: {
          groups: [
            // What nearly every screen uses comes as one file, not as thirty of less than a kilobyte each.
            { name: "kit", test: kit },
            { name: "screen-kit", test: screenKit },
            { name: "icons", test: /node_modules\/lucide-react\//, minShareCount: 4 },
            // Each of these is used by several screens, and by all of it or none.
            { name: "router", test: /node_modules\/react-router\// },
            { name: "query", test: /node_modules\/@tanstack\/(?!.*(?:mutation|infinite))/i },
            {
              name: "radix",
              test: /node_modules\/@radix-ui\/(?:primitive|react-(?:context|id|presence|use-[\w-]+))\//,
            },
            { name: "fields", test: /src\/components\/(?:form-field|ui\/input)\.tsx/ },
            {
              name: "pages",
              test: /node_modules\/@tanstack\/.*infinite|src\/components\/load-more|src\/hooks\/use-debounced/i,
            },
            // With the client, which every screen that shows people has loaded.
            { name: "people", test: /src\/lib\/people\./ },
            {
              name: "workspace-kit",
              test: /src\/(?:components\/(?:loaded|stale-alert)\.tsx|hooks\/use-tab\.ts|lib\/(?:invited|csv)\.ts)/,
            },
            { name: "plan-rows", test: /src\/lib\/(?:rows|plan-rows|own-writes|stale-row)\.ts/ },
            { name: "forms", test: /node_modules\/(?:react-hook-form|@hookform)\// },
          ],
        },
      },
    },
  },
  test: {
    environment: "jsdom",
    // One jsdom per worker, a fresh context per file: a third of the time of one jsdom per file.
    pool: "vmThreads",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/test/setup.ts"],
    // West of Greenwich, where a date taken for an instant shows as the day before.
    env: { TZ: "America/Los_Angeles" },
    restoreMocks: true,
    // A machine that also builds is no reason to fail.
    testTimeout: 20_000,
    unstubGlobals: true,
  },
});
