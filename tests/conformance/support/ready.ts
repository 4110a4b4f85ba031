import { url } from "./environment";

/** Fails once, with one sentence, when no server answers. */
export default async function ready(): Promise<void> {
  const response = await fetch(`${url}/ready`).catch((cause: unknown) => {
    throw new Error(`no server answers at ${url}`, { cause });
  });
  if (response.status !== 200) {
    throw new Error(`the server at ${url} is not ready: status ${response.status}`);
  }
}
