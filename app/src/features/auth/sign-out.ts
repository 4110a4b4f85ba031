import { basalt } from "@/lib/basalt";

/** Ends the session of this browser; those of the person's other devices go on. */
export async function signOut() {
  const { error } = await basalt.auth.signOut({ scope: "local" });
  if (!error) return null;
  // The session is gone from this browser before the server is asked: a server that could not be
  // reached leaves someone who is signed out all the same.
  const { data } = await basalt.auth.getSession();
  return data.session ? error : null;
}
