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
    unstubGlobals: true,
  },
});
