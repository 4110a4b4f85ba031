import type { User } from "@supabase/supabase-js";
import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useRef, useState } from "react";
import { mayHaveSession } from "@/lib/session-storage";

export interface Auth {
  /** Until the stored session has been read: neither signed in nor out. */
  loading: boolean;
  user: User | null;
}

const visitor: Auth = { loading: false, user: null };

export const AuthContext = createContext<Auth | null>(null);

interface AuthProviderProps {
  /** The screen does without the client: where no session can be, it is not even loaded. */
  optional: boolean;
  children: ReactNode;
}

export function AuthProvider({ optional, children }: AuthProviderProps) {
  const queryClient = useQueryClient();
  const [auth, setAuth] = useState<Auth>({ loading: true, user: null });
  const [failure, setFailure] = useState<Error | null>(null);
  const userId = useRef<string | null>(null);
  const needed = !optional || mayHaveSession();

  useEffect(() => {
    if (!needed) return;
    let unsubscribe: (() => void) | null = null;
    let unmounted = false;

    async function watchSession() {
      const { basalt } = await import("@/lib/basalt");
      if (unmounted) return;
      // Synchronous: awaiting the client in here can deadlock it.
      const { data } = basalt.auth.onAuthStateChange((_event, session) => {
        const user = session?.user ?? null;
        if (userId.current !== null && userId.current !== user?.id) {
          // What the last person could see is not for the next one on this machine.
          queryClient.clear();
        }
        userId.current = user?.id ?? null;
        setAuth({ loading: false, user });
      });
      unsubscribe = () => data.subscription.unsubscribe();
    }

    watchSession().catch((error: Error) => setFailure(error));
    return () => {
      unmounted = true;
      unsubscribe?.();
    };
  }, [needed, queryClient]);

  // The client's code could not be fetched: the route's error screen offers a reload.
  if (failure) throw failure;
  return <AuthContext value={needed ? auth : visitor}>{children}</AuthContext>;
}

export function useAuth(): Auth {
  const auth = useContext(AuthContext);
  if (!auth) throw new Error("useAuth must be used within an AuthProvider");
  return auth;
}
