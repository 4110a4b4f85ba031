import type { Plugin } from "vite";

/** Asks for the fonts of the first screen together with the script, not after the stylesheet has been read. */
export function preloadFonts(names: RegExp[]): Plugin {
  return {
    name: "basalt:preload-fonts",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler: (_html, { bundle }) =>
        Object.keys(bundle ?? {})
          .filter((file) => names.some((name) => name.test(file)))
          .map((file) => ({
            tag: "link",
            attrs: { rel: "preload", href: `/${file}`, as: "font", type: "font/woff2", crossorigin: true },
            injectTo: "head" as const,
          })),
    },
  };
}
