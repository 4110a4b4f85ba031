import { useQuery } from "@tanstack/react-query";
import { useAuth } from "@/features/auth/auth-context";
import { currentPlanName } from "@/features/auth/subscription";
import { PricingSection } from "@/features/billing/pricing-section";
import { Footer } from "@/features/marketing/footer";
import { marketingQuery } from "@/features/marketing/queries";
import { useDocumentTitle } from "@/hooks/use-document-title";
import { useCanceledToast } from "../use-canceled-toast";

export function Component() {
  useDocumentTitle("Pricing", "What Basalt costs: plans for non-profit organizations of every size.");
  useCanceledToast("/pricing");
  const { user, subscription } = useAuth();
  const { data: content = {}, isPending } = useQuery(marketingQuery());
  return (
    <>
      <PricingSection
        heading="h1"
        content={content.pricing}
        person={user && { id: user.id, email: user.email }}
        currentPlanName={currentPlanName(subscription)}
      />
      <Footer
        content={content.footer}
        bare={isPending || content.footer?.visible === false || Boolean(content.footer?.hide_for_subscribed && user)}
      />
    </>
  );
}
