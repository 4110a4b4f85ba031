import { useEffect, useRef } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { toast } from "@/lib/toast";

/** Tells of a purchase that was broken off on the card provider's page, once, and takes its sign out of the address. */
export function useCanceledToast(path: string) {
  const navigate = useNavigate();
  const [parameters] = useSearchParams();
  const canceled = parameters.get("subscription") === "canceled";
  const told = useRef(false);
  useEffect(() => {
    if (!canceled || told.current) return;
    told.current = true;
    toast.error("Subscription Canceled", { description: "You canceled the subscription process." });
    void navigate(path, { replace: true });
  }, [canceled, navigate, path]);
}
