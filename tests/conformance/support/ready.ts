import { url } from "./environment";

/** Fails once, when no server responds. */
export default async function ready(): Promise<void> {
  const response = await fetch(`${url}/ready`).catch((cause: unknown) => {
    throw new Error(`no server responds at ${url}`, { cause });
  });
  if (response.status !== 200) {
    throw new Error(`the server at ${url} is not ready: status ${response.status}`);
  }
}
