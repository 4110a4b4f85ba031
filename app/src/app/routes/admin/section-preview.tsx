import type { DraftContent } from "@/features/admin-marketing/page-content";
import { PricingSection } from "@/features/billing/pricing-section";
import { Features } from "@/features/marketing/features";
import { Footer } from "@/features/marketing/footer";
import { ForNonprofits } from "@/features/marketing/for-nonprofits";
import { Hero } from "@/features/marketing/hero";
import type { Section } from "@/features/marketing/queries";

/** A section of the public page as a visitor sees it, with words that are not saved yet. */
export function SectionPreview({ section, content: draft }: { section: Section; content: DraftContent }) {
  const content = { section, ...draft };
  switch (section) {
    case "hero":
      return <Hero content={content} startPath="/register" heading="h2" />;
    case "features":
      return <Features content={content} />;
    case "nonprofits":
      return <ForNonprofits content={content} />;
    case "pricing":
      return <PricingSection content={content} person={null} currentPlanName={null} />;
    case "footer":
      return <Footer content={content} bare={false} />;
    default:
      return section satisfies never;
  }
}
