import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { lazyPart } from "@/components/lazy-part";
import { Loaded } from "@/components/loaded";
import { PageHeading } from "@/components/page-heading";
import { Card } from "@/components/ui/card";
import { Skeleton } from "@/components/ui/skeleton";
import { Tabs, TabsContent, TabsList, TabsTrigger } from "@/components/ui/tabs";
import { useOpened } from "@/hooks/use-opened";
import { useTab } from "@/hooks/use-tab";
import { MailSettingsForm } from "./mail-settings";
import { mailSettingsQuery, templateQuery } from "./queries";
import { TestMailForm } from "./test-mail-form";

// Its preview brings what makes HTML safe.
const TemplateForm = lazyPart(
  () => import("./template-form").then(({ TemplateForm }) => TemplateForm),
  <Skeleton className="h-96" />,
);

// Every tab stays mounted, so that typed text survives a change of tabs.
const kept = "data-[state=inactive]:hidden";

const settingTexts = { loading: "Loading settings...", failed: "Failed to load settings." };

/** `ownEmail` is where a test goes unless the person says otherwise. */
export function EmailIntegration({ ownEmail }: { ownEmail: string }) {
  const settings = useQuery(mailSettingsQuery());
  const template = useQuery(templateQuery());
  const canTest = Boolean(settings.data?.value.apiKey);
  const [asked, setTab] = useTab(["settings", "templates", "test"]);
  const tab = asked === "test" && settings.isSuccess && !canTest ? "settings" : asked;
  const opened = useOpened(tab);
  return (
    <>
      <PageHeading title="Email Integration" subtitle="The service that sends invitations and other mail" />
      <Tabs value={tab} onValueChange={setTab}>
        <TabsList look="line" aria-label="Email integration" className="mb-6">
          <TabsTrigger value="settings">Settings</TabsTrigger>
          <TabsTrigger value="templates">Email Templates</TabsTrigger>
          <TabsTrigger
            value="test"
            disabled={!canTest}
            title={canTest ? undefined : "Save the settings first"}
            className="disabled:opacity-50"
          >
            Test Email
          </TabsTrigger>
        </TabsList>
        <TabsContent value="settings" forceMount className={kept}>
          <Panel
            title="Email Settings"
            text="Mail is sent through Resend. Until a key is saved, the server's own mail settings count."
          >
            <Loaded query={settings} {...settingTexts}>
              {(row) => <MailSettingsForm row={row} />}
            </Loaded>
          </Panel>
        </TabsContent>
        <TabsContent value="templates" forceMount className={kept}>
          <Panel title="Invitation Email" text="What people read who are invited to a plan.">
            <Loaded query={template} {...settingTexts}>
              {(row) => opened.has("templates") && <TemplateForm row={row} />}
            </Loaded>
          </Panel>
        </TabsContent>
        <TabsContent value="test" forceMount className={kept}>
          <Panel title="Send a Test Email" text="With the saved settings, at once.">
            <TestMailForm defaultTo={ownEmail} />
          </Panel>
        </TabsContent>
      </Tabs>
    </>
  );
}

function Panel({ title, text, children }: { title: string; text: string; children: ReactNode }) {
  return (
    <Card className="p-5 sm:p-6">
      <h2 className="text-heading">{title}</h2>
      <p className="mt-1 mb-6 text-muted-foreground text-sm">{text}</p>
      {children}
    </Card>
  );
}
