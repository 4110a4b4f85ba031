-- What a new site says until its administrators say something else (specification 1, section 2; specification 2, section 9).

insert into public.marketing_content (section, title, subtitle, description, primarybuttontext, secondarybuttontext) values
  ('hero', 'Strategic Planning Made Simple', null,
   'Set goals, plan together, and show your board and funders how far you have come.',
   'Start Planning Free', 'Learn More'),
  ('features', 'Powerful Features for Strategic Planning', null, null, null, null),
  ('nonprofits', 'Built for Non-Profit Organizations', null, null, 'Start Your Strategic Plan', null),
  ('pricing', 'Choose Your Plan', null, null, null, null),
  ('footer', null, null, null, null, null)
on conflict (section) do nothing;

insert into public.brand_assets (asset_type, asset_size, asset_url) values
  ('logo', 'regular', '/favicon.svg'),
  ('logo', 'small', '/favicon.svg'),
  ('logo', 'favicon', '/favicon.svg')
on conflict (asset_type, asset_size) do nothing;

insert into public.subscription_prompt (subtitle, features)
select 'Get the most out of your strategic planning.', jsonb_build_array(
  'Unlimited strategic plans', 'Collaboration with unlimited team members', 'Advanced reporting features',
  'Priority customer support')
where not exists (select from public.subscription_prompt);

insert into public.app_settings (key, value) values
  ('invite_email_template', jsonb_build_object(
    'subject', 'You''ve been invited to collaborate on {{planTitle}}',
    'body', '<p>Hello,</p><p>{{inviterEmail}} has invited you to work on the strategic plan <strong>{{planTitle}}</strong> as {{role}}.</p><p><a href="{{inviteUrl}}">Accept the invitation</a></p><p>The link is good for 14 days. If you did not expect it, you can ignore this message.</p>'
  ))
on conflict (key) do nothing;
