import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { useSearchParams } from "react-router";
import { subscriptionQuery } from "@/features/auth/subscription";
import { toast } from "@/lib/toast";

/** The server knows of most payments before the person is back; of some, and of changes of plan, a moment later. */
const pausesMs = [500, 500, 1000, 2000, 4000, 8000];

/** Thanks for a purchase once, takes its sign out of the address, and fetches the subscription until it shows. */
export function useCheckoutSuccess(userId: string) {
  const queryClient = useQueryClient();
  const [parameters, setParameters] = useSearchParams();
  const succeeded = parameters.get("subscription") === "success";
  const told = useRef(false);

  useEffect(() => {
    if (!succeeded || told.current) return;
    told.current = true;
    toast.success("Thank you for subscribing", { description: "Your plan is ready, or will be in a moment." });
    setParameters({}, { replace: true });
    void keepFresh();

    async function keepFresh() {
      const query = { ...subscriptionQuery(userId), staleTime: 0 };
      for (const pauseMs of pausesMs) {
        await queryClient.fetchQuery(query).catch(() => undefined);
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    }
  }, [succeeded, setParameters, queryClient, userId]);
}
