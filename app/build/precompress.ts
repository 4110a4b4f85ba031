import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import type { Plugin } from "vite";

const brotli = promisify(brotliCompress);
const deflate = promisify(gzip);
const compressible = /\.(?:css|html|js|json|svg|txt|webmanifest)$/;
// Below this a packet holds the file either way.
const worthwhileBytes = 1024;

/** Writes `.br` and `.gz` beside each text file of the build, so that the server compresses nothing itself. */
export function precompress(): Plugin {
  let outDir = "";
  return {
    name: "basalt:precompress",
    apply: "build",
    configResolved(config) {
      outDir = path.resolve(config.root, config.build.outDir);
    },
    async closeBundle() {
      const entries = await readdir(outDir, { recursive: true, withFileTypes: true });
      const files = entries.filter((entry) => entry.isFile() && compressible.test(entry.name));
      await Promise.all(files.map((file) => compress(path.join(file.parentPath, file.name))));
    },
  };
}

async function compress(file: string) {
  const content = await readFile(file);
  if (content.length < worthwhileBytes) return;
  const [br, gz] = await Promise.all([
    brotli(content, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
        [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      },
    }),
    deflate(content, { level: constants.Z_BEST_COMPRESSION }),
  ]);
  await Promise.all([writeFile(`${file}.br`, br), writeFile(`${file}.gz`, gz)]);
}
