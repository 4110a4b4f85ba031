interface TemplateTask {
  title: string;
  measure?: string;
  /** Days from today. */
  due?: number;
  by?: string[];
  done?: boolean;
  /** HTML, as the editor writes it. */
  description?: string;
}

interface TemplatePriority {
  title: string;
  description: string;
  tasks: TemplateTask[];
}

export const templates = {
  fundraising: {
    name: "Fundraising year",
    priorities: [
      {
        title: "Keep the donors we have",
        description: "<p>Most of next year's income comes from people who give already.</p>",
        tasks: [
          { title: "Thank every donor within a week", measure: "No gift waits longer than seven days", due: 14 },
          { title: "Report what last year's gifts achieved", measure: "One page, sent to all donors", due: 45 },
          { title: "Call the twenty largest donors", due: 60 },
        ],
      },
      {
        title: "Win new donors",
        description: "<p>New supporters replace those who stop giving.</p>",
        tasks: [
          { title: "Prepare the year-end appeal", measure: "Letter and e-mail approved", due: 90 },
          { title: "Invite supporters to an open day", due: 75 },
        ],
      },
      {
        title: "Apply for grants",
        description: "<p>Few applications, each of them well prepared.</p>",
        tasks: [
          { title: "List the funders that fit our work", measure: "Ten funders with their deadlines", due: 21 },
          { title: "Write the first application", due: 60 },
          { title: "Collect the figures that funders ask for", due: 30 },
        ],
      },
    ],
  },
  program: {
    name: "A new program",
    priorities: [
      {
        title: "Understand the need",
        description: "<p>What the people we want to help say they need.</p>",
        tasks: [
          { title: "Talk to twenty people we want to reach", measure: "Notes of twenty conversations", due: 30 },
          { title: "Visit two organizations that do something similar", due: 40 },
        ],
      },
      {
        title: "Run a pilot",
        description: "<p>Small, short, and measured.</p>",
        tasks: [
          { title: "Agree what success looks like", measure: "Three figures that everyone accepts", due: 45 },
          { title: "Find a place and a date", due: 60 },
          { title: "Recruit and brief volunteers", measure: "Eight volunteers", due: 75 },
        ],
      },
      {
        title: "Decide and fund",
        description: "<p>Go on, change course, or stop.</p>",
        tasks: [
          { title: "Compare the pilot with its goals", due: 120 },
          { title: "Present a budget for the first year to the board", due: 135 },
        ],
      },
    ],
  },
  organization: {
    name: "A stronger organization",
    priorities: [
      {
        title: "Board and governance",
        description: "<p>A board that knows its part and has the people for it.</p>",
        tasks: [
          { title: "Review the skills of the board", measure: "Gaps are named", due: 30 },
          { title: "Agree the dates of next year's meetings", due: 45 },
        ],
      },
      {
        title: "Staff and volunteers",
        description: "<p>People stay where they are prepared and thanked.</p>",
        tasks: [
          { title: "Write an introduction for new volunteers", due: 40 },
          { title: "Hold a yearly talk with each member of staff", due: 90 },
        ],
      },
      {
        title: "Finance and risk",
        description: "<p>No surprises.</p>",
        tasks: [
          { title: "Prepare next year's budget", measure: "Approved by the board", due: 75 },
          { title: "Check insurance, data protection and safeguarding", due: 60 },
          { title: "Agree a policy for reserves", due: 100 },
        ],
      },
    ],
  },
  example: {
    name: "A finished example",
    priorities: [
      {
        title: "Open four food hubs",
        description: "<p>One in each district, within walking distance of a bus stop.</p>",
        tasks: [
          {
            title: "Sign the lease for Eastfield",
            description: "<ul><li><p>Compare three offers</p></li><li><p>Have the contract checked</p></li></ul>",
            measure: "A contract for at least two years",
            due: -20,
            by: ["Maya Fischer"],
            done: true,
          },
          { title: "Find a hall in Northbrook", measure: "Two offers in writing", due: -3, by: ["Tom Okafor"] },
          { title: "Equip the kitchen in Eastfield", due: 18, by: ["Maya Fischer", "Lena Novak"] },
          { title: "Agree opening hours with the councils", due: 35 },
        ],
      },
      {
        title: "Recruit sixty volunteers",
        description: "<p>Enough for two shifts a day in each hub.</p>",
        tasks: [
          { title: "Ask the university and two parishes", due: -35, by: ["Lena Novak"], done: true },
          { title: "Publish the sign-up form", measure: "A form that works on phones", due: -10, done: true },
          { title: "Hold the first introduction evening", measure: "Twenty people come", due: 12, by: ["Lena Novak"] },
        ],
      },
      {
        title: "Secure the funding for two years",
        description: "<p>Half from grants, half from gifts.</p>",
        tasks: [
          { title: "Apply to the city's food fund", due: -50, by: ["Tom Okafor"], done: true },
          { title: "Win ten monthly donors", measure: "Ten donors, 40 dollars each", due: 60 },
          { title: "Report to the first funder", due: 90, by: ["Tom Okafor"] },
        ],
      },
    ],
  },
} satisfies Record<string, { name: string; priorities: TemplatePriority[] }>;

export type TemplateId = keyof typeof templates;

export const prioritiesOf = (id: TemplateId): TemplatePriority[] => templates[id].priorities;
