import { lazyPart } from "@/components/lazy-part";
import { PageHeading } from "@/components/page-heading";
import { Skeleton } from "@/components/ui/skeleton";
import { Tabs, TabsContent, TabsList, TabsTrigger } from "@/components/ui/tabs";
import { PageContent } from "@/features/admin-marketing/page-content";
import { useOpened } from "@/hooks/use-opened";
import { useTab } from "@/hooks/use-tab";
import { SectionPreview } from "./section-preview";

const PromptSettings = lazyPart(
  () => import("@/features/admin-prompt/prompt-settings").then(({ PromptSettings }) => PromptSettings),
  <Skeleton className="h-96" />,
);

// Both stay mounted, so that typed text survives a change of tabs.
const kept = "data-[state=inactive]:hidden";

export function Component() {
  const [tab, setTab] = useTab(["page-content", "subscription-prompt"]);
  const opened = useOpened(tab);
  return (
    <>
      <PageHeading title="Marketing Content" subtitle="What the site says to those who do not know it yet" />
      <Tabs value={tab} onValueChange={setTab}>
        <TabsList look="line" aria-label="Marketing" className="mb-6">
          <TabsTrigger value="page-content">Page Content</TabsTrigger>
          <TabsTrigger value="subscription-prompt">Subscription Prompt</TabsTrigger>
        </TabsList>
        <TabsContent value="page-content" forceMount className={kept}>
          <PageContent renderPreview={(section, content) => <SectionPreview section={section} content={content} />} />
        </TabsContent>
        <TabsContent value="subscription-prompt" forceMount className={kept}>
          {opened.has("subscription-prompt") && <PromptSettings />}
        </TabsContent>
      </Tabs>
    </>
  );
}
