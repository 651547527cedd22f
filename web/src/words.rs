//! Every text of the pages, in English and in Simplified Chinese. A word that one of the two lacks does not compile.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The languages of the console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Lang {
    #[default]
    En,
    Zh,
}

impl Lang {
    pub(crate) const ALL: [Self; 2] = [Self::En, Self::Zh];

    /// As in `<html lang>` and in the cookie.
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh-CN",
        }
    }

    /// Its own name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::En => "English",
            Self::Zh => "简体中文",
        }
    }

    pub(crate) fn of_tag(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lang| lang.tag() == tag)
    }

    /// The first language of an `Accept-Language` that we speak. Weights are not looked at: browsers send them in order.
    pub(crate) fn accepted(header: &str) -> Option<Self> {
        header.split(',').find_map(|part| match part.split([';', '-']).next().unwrap_or_default().trim() {
            "en" => Some(Self::En),
            "zh" => Some(Self::Zh),
            _ => None,
        })
    }

    pub(crate) const fn words(self) -> &'static Words {
        match self {
            Self::En => &EN,
            Self::Zh => &ZH,
        }
    }
}

/// Puts `values` where a text says `{0}`, `{1}`.
pub(crate) fn fill(text: &str, values: &[&str]) -> String {
    let mut filled = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some((before, (place, behind))) =
        rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        filled.push_str(before);
        filled.push_str(place.parse::<usize>().ok().and_then(|n| values.get(n)).copied().unwrap_or_default());
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

macro_rules! words {
    ($($name:ident: $en:literal, $zh:literal;)*) => {
        /// The texts of one language.
        #[derive(Debug)]
        pub(crate) struct Words { $(pub(crate) $name: &'static str,)* }
        const EN: Words = Words { $($name: $en,)* };
        const ZH: Words = Words { $($name: $zh,)* };
        #[cfg(test)]
        const PAIRS: &[(&str, &str, &str)] = &[$((stringify!($name), $en, $zh),)*];
    };
}

words! {
    // The frame
    overview: "Overview", "概览";
    leases: "Leases", "租约";
    agents: "Agents", "代理";
    namespaces: "Namespaces", "命名空间";
    axes: "Axes", "号段轴";
    whitelist: "Whitelist", "白名单";
    audit: "Audit", "审计";
    designer: "Designer", "布局设计";
    explain: "Explain an ID", "解析 ID";
    users: "Users and keys", "用户与密钥";
    settings: "Settings", "设置";
    skip: "Skip to the content", "跳到正文";
    menu: "Menu", "菜单";
    navigation: "Pages", "页面";
    preferences: "Language and look", "语言与外观";
    language: "Language", "语言";
    theme: "Look", "外观";
    theme_auto: "System", "跟随系统";
    theme_light: "Light", "浅色";
    theme_dark: "Dark", "深色";
    log_out: "Log out", "退出登录";
    live: "Live", "实时";
    not_live: "Not live", "已断开";
    lost_title: "Connection lost", "连接已断开";
    lost_text: "This page shows the state of {0}. Trying again…", "本页显示的是 {0} 的状态，正在重试……";
    no_script: "Without JavaScript this page shows the moment it was loaded, and changes nothing.", "未启用 JavaScript：本页只显示加载时的状态，无法进行更改。";
    test_clock: "Test clock", "测试时钟";
    test_clock_text: "Time runs {0} times faster since {1}. The IDs of this cluster are for tests only.", "自 {1} 起时间快 {0} 倍。该集群的 ID 仅供测试。";
    go_home: "Go to the overview", "返回概览";
    never: "never", "从未";
    unknown: "unknown", "未知";
    none: "none", "无";
    yes: "yes", "是";
    no: "no", "否";
    cancel: "Cancel", "取消";
    failed: "That did not work", "操作失败";
    unreachable: "The console did not answer. Nothing is known about what became of it: look before you try again.", "控制台没有响应，结果未知：重试前请先查看当前状态。";
    copy: "Copy", "复制";
    copied: "Copied", "已复制";

    // Times
    just_now: "just now", "刚刚";
    under_a_minute: "in under a minute", "不到一分钟后";
    ago: "{0} ago", "{0}前";
    ahead: "in {0}", "{0}后";
    days: "{0} d", "{0} 天";
    hours: "{0} h", "{0} 小时";
    minutes: "{0} min", "{0} 分";
    seconds: "{0} s", "{0} 秒";

    // How things are
    status_well: "Both masters are ready", "两台主控均就绪";
    status_well_text: "New leases can be granted.", "可以授予新租约。";
    status_silent: "Master {0} is silent", "主控 {0} 无响应";
    status_silent_text: "Agents keep minting and renewing; new leases and changes wait until it is back.", "代理继续生成 ID 和续租；新租约与更改需等待其恢复。";
    status_syncing: "Master {0} is synchronising", "主控 {0} 正在同步";
    status_syncing_text: "It exchanges tables with the other one first; agents keep minting meanwhile.", "正在与另一台交换数据；期间代理继续生成 ID。";
    status_unready: "No new lease can be granted", "无法授予新租约";
    status_skew: "The masters’ clocks are far apart", "两台主控的时钟相差过大";
    status_skew_text: "New leases can still be granted; check the time service on both machines.", "仍可授予新租约；请检查两台机器的时间服务。";
    status_calendar: "The calendar of master {0} jumped ahead", "主控 {0} 的日历时间向前跳变";
    status_calendar_text: "It is {0} ahead of the machine’s own clock, by which this master goes on. Correct it by the time service; if it is right now, restart this master. A jump of a day at most that stands for five minutes is followed by itself.", "它比机器自身的时钟快 {0}，本主控按后者继续运行。请用时间服务校正；如果现在的时间是对的，请重启本主控。不超过一天且持续五分钟的跳变会被自动采纳。";
    gate: "Changes need both masters, and the other one is away. Start it or mend the network between them; then this can be done.", "更改需要两台主控都在线，而另一台目前不在。请启动它或修复网络后再操作。";

    // Overview
    ids_per_second: "IDs a second", "每秒 ID 数";
    ids_per_second_hint: "all agents together, lately", "全部代理合计，近期";
    peak: "peak {0}", "峰值 {0}";
    tokens_held: "Tokens held", "已持有令牌";
    of_values: "of {0}", "共 {0}";
    held_hint: "all token types together", "所有令牌类型合计";
    next_end: "Ends next", "最近到期";
    next_end_hint: "the held lease with the nearest end", "最早到期的有效租约";
    next_end_none: "no lease is held", "没有有效租约";
    masters: "Masters", "主控";
    link_up: "connected", "已连接";
    link_down: "not connected", "未连接";
    master: "Master {0}", "主控 {0}";
    this_one: "this one", "本机";
    peer: "peer", "对端";
    last_heartbeat: "Last heartbeat", "最近心跳";
    clock_skew: "Clock skew", "时钟偏差";
    calendar_ahead: "Calendar jumped", "日历时间跳变";
    lsn: "LSN", "LSN";
    lsn_long: "Log sequence number: how many durable changes this master has written", "日志序号：该主控已持久写入的更改数";
    permit: "May renew alone until", "可单独续租至";
    version: "Version", "版本";
    mode_ready: "ready", "就绪";
    mode_ready_text: "grants and renews leases", "授予并续租";
    mode_alone: "ready alone", "单机就绪";
    mode_alone_text: "renews leases; new ones need both masters", "可续租；新租约需要两台主控";
    mode_syncing: "syncing", "同步中";
    mode_syncing_text: "exchanges tables with the other, serves nothing yet", "正在与对端交换数据，暂不提供服务";
    mode_rolled_back: "rolled back", "已回退";
    mode_rolled_back_text: "its ledger is older than it was: replace it", "账本比原来旧：请更换该主控";
    mode_silent: "silent", "无响应";
    mode_silent_text: "does not answer", "没有应答";
    pools: "Tokens by type", "各类型令牌";
    pools_hint: "Types share values: a uint1 token is also a uint2 one, and two digits are also two characters. A value counts under every type it belongs to.", "类型之间共享取值：uint1 令牌同时也是 uint2 令牌，两位数字同时也是两个字符。一个取值会计入它所属的每个类型。";
    held: "held", "已持有";
    resting: "resting", "静置中";
    free: "free", "空闲";
    values: "{0} values", "{0} 个取值";
    recent: "What happened", "最近事件";
    recent_none: "Nothing was written down yet.", "尚无记录。";
    all_audit: "All of the audit", "查看全部审计";
    busiest: "Busiest agents", "最繁忙的代理";
    all_agents: "All agents", "查看全部代理";
    alarms: "Needs attention", "需要关注";
    alarm_agent_lost: "Agent {0} has not reported since {1}. It may still mint until its lease ends.", "代理 {0} 自{1}起没有报告；租约到期前它仍可能在生成 ID。";
    alarm_agent_unheard: "Agent {0} holds leases, but has not reported since this master started.", "代理 {0} 持有租约，但自本主控启动以来没有报告。";
    alarm_agent_unready: "Agent {0} cannot mint: {1}", "代理 {0} 无法生成 ID：{1}";
    alarm_agent_skew: "Agent {0}: its machine’s clock is {1} off.", "代理 {0}：其机器时钟偏差 {1}。";
    alarm_agent_scarce: "Agent {0}: generator {1} has {2} of its IDs left for this {3}.", "代理 {0}：生成器 {1} 本{3}内仅剩 {2} 的 ID。";
    alarm_pool: "No {0} token is free.", "没有空闲的 {0} 令牌。";
    alarm_pool_low: "Only {0} {1} tokens are free; they are kept for agents and networks that are known.", "仅剩 {0} 个空闲的 {1} 令牌，只授予已知的代理和网络。";
    alarm_axis: "The axis of {0} lasts {1} at this rate: have its users ask by another name before.", "{0} 的号段轴按当前用量还可用 {1}：请在此之前让使用方改用其他名称。";
    alarm_axis_over: "All of the axis of {0} is granted; what masters and agents hold of it is the rest.", "{0} 的号段轴已全部授予，仅剩主控与代理手中的部分。";
    alarm_more: "and {0} more", "另有 {0} 项";
    hour: "hour", "小时";
    day: "day", "天";

    // Leases
    lease: "Lease of token {0}", "令牌 {0} 的租约";
    token: "Token", "令牌";
    token_type: "Type", "类型";
    state: "State", "状态";
    agent: "Agent", "代理";
    until: "Until", "有效期至";
    renewed: "Renewed", "续租于";
    reusable: "Reusable", "可再用于";
    reusable_long: "When the token could have its next holder, if it were not renewed any more", "若不再续租，令牌可授予下一持有者的时间";
    address: "Address", "地址";
    from: "From", "起始";
    grant: "Grant", "授予次数";
    grant_long: "Which grant of this token it is", "该令牌的第几次授予";
    session: "Session", "会话";
    any: "any", "全部";
    search: "Search", "搜索";
    search_hint: "token, agent, session, address", "令牌、代理、会话、地址";
    filter: "Filter", "筛选";
    filter_leases: "Filter the leases", "筛选租约";
    show_all: "Show all", "全部显示";
    not_yet: "not yet", "尚未";
    no_lease: "No lease yet: start an agent with uniq_generator --masters and it appears here.", "尚无租约：用 uniq_generator --masters 启动代理后会显示在此。";
    no_match: "No lease matches this filter.", "没有符合条件的租约。";
    nothing_here: "There is nothing on this page: go back to the first one.", "本页没有内容：请返回第一页。";
    leases_caption: "Leases. Times are shown in your time zone; UTC appears on hover.", "租约列表。时间按您的时区显示，悬停可见 UTC。";
    count_none: "No lease", "没有租约";
    count_one: "1 lease", "1 个租约";
    count_all: "{0} leases", "{0} 个租约";
    count_part: "{0}–{1} of {2} leases", "第 {0}–{1} 个，共 {2} 个租约";
    count_beyond: "None of {0} leases on this page", "本页没有租约（共 {0} 个）";
    previous: "Previous page", "上一页";
    next: "Next page", "下一页";
    pages_of_leases: "Pages of leases", "租约分页";
    sort_by: "Sort by {0}", "按{0}排序";
    state_granting: "granting", "授予中";
    state_held: "held", "有效";
    state_ending: "ending", "终止中";
    state_resting: "resting", "静置中";
    state_free: "free", "空闲";
    state_granting_text: "proposed by one master, not confirmed by the other yet", "一台主控已提议，另一台尚未确认";
    state_held_text: "granted, and may be renewed", "已授予，可续租";
    state_ending_text: "not renewed any more, but not yet ended at both masters", "不再续租，但尚未在两台主控上结束";
    state_resting_text: "ended; nobody may have the token before it has rested", "已结束；静置期满之前任何人不得使用";
    state_free_text: "nobody has this token; it can be granted", "无人持有该令牌，可授予";
    lease_span: "The span of time in which this agent may stamp this token", "该代理可使用此令牌的时间段";
    rests_until: "Rests until", "静置至";
    history: "History", "历史";
    history_hint: "What both masters wrote down about this token, the newest first. Renewals by the agent itself are not written down.", "两台主控对该令牌的记录，最新在前。代理自身的续租不记录。";
    history_none: "The audit says nothing of this token.", "审计中没有该令牌的记录。";
    back_to_leases: "All leases", "全部租约";
    renew: "Renew", "续租";
    renew_done: "Renewed until {until}.", "已续租至 {until}。";
    terminate: "Terminate", "强制终止";
    terminate_title: "Terminate the lease of token {key}?", "终止令牌 {key} 的租约？";
    terminate_text: "Agent {agent} gets no further renewal. It stops using the token as soon as it hears of it, and at the latest when the lease ends. The token then rests; nobody gets it before:", "代理 {agent} 将不再获得续租；它得知后立即停用该令牌，最迟在租约到期时停用。随后令牌进入静置期，在此之前任何人都不能获得它：";
    terminate_confirm: "Type {key} to confirm", "输入 {key} 以确认";
    terminate_done: "Terminated. Token {token} rests until {reuse_at}.", "已终止。令牌 {token} 静置至 {reuse_at}。";
    actions: "Actions", "操作";

    // Agents
    agents_hint: "Every agent reports to a master every five seconds, and the masters tell each other.", "每个代理每五秒向一台主控报告，主控之间互相转告。";
    agent_well: "well", "正常";
    agent_late: "late", "延迟";
    agent_lost: "lost", "失联";
    agent_well_text: "reports every few seconds", "每隔几秒报告一次";
    agent_late_text: "its reports are overdue", "报告已超时";
    agent_lost_text: "not heard of for a minute; it may still mint until its lease ends", "一分钟没有消息；租约到期前仍可能生成 ID";
    start: "Start", "启动";
    start_resumed: "resumed", "续用";
    start_fresh: "fresh", "全新";
    clock_offset: "Clock offset", "时钟校正";
    clock_offset_long: "How far the agent corrects its machine’s clock by the masters’", "代理依照主控时间对本机时钟的校正量";
    rate: "IDs a second", "每秒 ID";
    minted: "Minted", "已生成";
    capacity_left: "Capacity left", "剩余容量";
    capacity_long: "Of the generator that is nearest to its end: {0} of {1} left for this {2}", "最接近用尽的生成器：本{2}剩余 {0}（共 {1}）";
    tokens: "Tokens", "令牌";
    reports_to: "Reports to", "报告至";
    no_agent: "No agent has reported yet, and none holds a lease.", "尚无代理报告，也没有代理持有租约。";
    no_agent_match: "No agent matches this search.", "没有符合条件的代理。";
    agent_search_hint: "a part of its name", "名称的一部分";
    agents_shown: "{0} of {1} agents", "{0} / {1} 个代理";

    // Namespaces
    namespaces_hint: "A namespace is a generator’s name. No two names of a kind give equal IDs, unless one has a scope of its own. What a name stands for never changes.", "命名空间即生成器名称。除非某名称自成范围，同一种类的任何两个名称绝不给出相同的 ID。名称的定义一经注册不可更改。";
    scope: "Scope", "唯一范围";
    scope_kind: "the whole kind", "整个种类";
    scope_own: "this name alone", "仅此名称";
    scope_hint: "this name alone: other names may give equal IDs", "仅此名称：其他名称可能给出相同的 ID";
    retired: "retired: gives no more IDs", "已停用：不再给出 ID";
    name: "Name", "名称";
    kind: "Kind", "种类";
    template: "Template", "模板";
    capacity: "Per token", "每令牌容量";
    capacity_hour: "{0} an hour", "每小时 {0}";
    capacity_tick: "{0} a tick", "每个时间单位 {0}";
    capacity_ever: "{0} in all", "共 {0}";
    capacity_day: "{0} a day", "每天 {0}";
    daily_reset: "Daily reset", "每日重置";
    step: "Step", "步长";
    step_hint: "serials reserved at once; leave empty for the usual", "一次预留的序号数；留空为默认";
    example: "Example", "示例";
    plugins: "Plugins", "插件";
    registered_by: "Registered by", "注册者";
    retire: "Retire", "停用";
    retire_title: "Retire {name} for ever?", "永久停用 {name}？";
    retire_text: "It gives no more IDs, at the latest a minute after an agent heard a master, and never stands for anything else. This cannot be undone; it does not count any more among the names there may be.", "它不再给出 ID（最迟在代理联系到主控一分钟后），且永不改作他用。此操作不可撤销；它不再计入名称的数量上限。";
    retire_done: "{name} gives no more IDs.", "{name} 不再给出 ID。";
    always_there: "always there", "内置";
    filter_names: "Filter the names", "筛选名称";
    names_search_hint: "a part of the name, the description or a label", "名称、描述或标签的一部分";
    names_shown: "{0} of {1} names", "{0} / {1} 个名称";
    no_name_match: "No name matches this filter.", "没有符合条件的名称。";
    application: "Application", "应用";
    owner: "Owner", "负责人";
    description: "Description", "描述";
    label: "Label", "标签";
    label_hint: "env=prod, or env alone", "env=prod，或仅 env";
    labels: "Labels", "标签";
    labels_hint: "one a line: key=value; at most 16, a key of a-z 0-9 -", "每行一个：key=value；最多 16 个，键由 a-z 0-9 - 组成";
    one_name: "Name {0}", "名称 {0}";
    back_to_names: "All names", "全部名称";
    noted: "Noted about it", "备注";
    noted_hint: "None of this changes its IDs, so it may change at any time. Both masters write it down.", "这些内容不影响其 ID，可随时更改。两个主控都会记录。";
    noted_nothing: "Nothing is noted about this name.", "该名称没有备注。";
    note: "Change what is noted", "更改备注";
    note_button: "Save", "保存";
    note_done: "Saved what is noted about {name}.", "已保存 {name} 的备注。";
    name_changes: "What was changed, and by whom", "更改记录";
    served: "Agents that can serve it", "可提供服务的代理";
    served_hint: "Those that hold a token of its type. An agent tells the masters of the sixteen names that it minted most by; what is left is known where no other name of that agent has less.", "即持有该类型令牌的代理。代理向主控报告其发号最多的十六个名称；仅当该代理没有其他名称剩余更少时，才知道剩余容量。";
    serves_none: "No agent holds a token of type {0}: start agents with it in --token-types.", "没有代理持有 {0} 类型的令牌：请在代理的 --token-types 中加入该类型。";
    tokens_of_type: "Tokens of its type", "该类型的令牌";
    capacity_all: "All of them", "合计容量";
    capacity_least: "Least left", "最少剩余";
    written_as: "Written as", "书写形式";
    rate_name: "IDs a second, lately", "每秒 ID 数（近期）";
    availability: "Calls served", "调用成功率";
    calls_of: "{0} of {1} calls since the agents’ starts", "自代理启动以来 {0} / {1} 次调用";
    p99: "99 of 100 calls within", "99% 的调用耗时不超过";
    without_stats: "unknown: the name has no plugin stats", "未知：该名称没有 stats 插件";
    not_leased: "no agent leases this type: start agents with it in --token-types", "没有代理租用此类令牌：请在代理的 --token-types 中加入该类型";
    register: "Register a namespace", "注册命名空间";
    register_button: "Register", "注册";
    name_hint: "1 to 15 of a-z 0-9 _ -", "1 至 15 个字符：a-z 0-9 _ -";
    template_hint: "fixed length, with a date to the day, {token} and {serial:N}", "定长，须含精确到日的日期、{token} 和 {serial:N}";
    kind_uniq64: "64-bit numbers", "64 位整数";
    kind_string: "strings by a template", "按模板的字符串";
    kind_segment: "plain numbers in segments", "号段中的普通数字";
    kind_sequence: "a counter for every key", "每个键一个计数器";
    seg_first: "First place", "第一个位置";
    seg_first_hint: "leave empty for 1; above what another system gave, if this name takes its place", "留空为 1；若取代其他系统，请填其已给出的数字之上";
    seg_last: "Last place", "最后一个位置";
    seg_last_hint: "leave empty for as far as 63 bits go", "留空为 63 位可容纳的最大值";
    seg_increment: "Increment", "增量";
    seg_increment_hint: "number = offset + increment × place; leave empty for 1", "数字 = 偏移 + 增量 × 位置；留空为 1";
    seg_offset: "Offset", "偏移";
    seg_threshold: "Fetch the next segment at", "取下一号段的时机";
    seg_threshold_hint: "percent used, 1 to 90; leave empty for 20", "已用百分比，1 至 90；留空为 20";
    seq_width: "Width of the numbers", "数字位宽";
    seq_keys: "Keys of a section", "每分区的键数";
    seq_keys_hint: "that share one agent and one bound; leave empty for 100,000", "共用一个代理与一个上限；留空为 100,000";
    seq_allowance: "Solo allowance", "单机余量";
    seq_allowance_hint: "how far one master may go alone; leave empty for the usual", "单台主控可单独推进的幅度；留空为默认";
    seq_set: "Set", "集合";
    seq_set_hint: "agents started with it serve the name; leave empty for default", "以该集合启动的代理提供服务；留空为 default";
    serves_all: "No agent tells of this name yet. Every agent can serve it: it asks a master for numbers when it is first asked.", "尚无代理报告使用该名称。每个代理都可提供：首次被请求时向主控取号。";
    register_done: "Registered {name}. Every agent serves it from now on.", "已注册 {name}，所有代理即可使用。";
    register_warning: "This is for ever: a name can be retired, but never stands for anything else.", "注册后永久有效：名称可停用，但不可改作他用。";

    // Axes
    axes_hint: "An axis holds the places of a name of kind segment. Both masters grant extents of it to one of them, and that one grants segments of these to agents. What is told of use and time is an estimate by the last hours.", "号段轴是 segment 类名称的全部位置。两台主控共同将其中一段授予其中一台，该主控再从中向代理授予号段。用量与时长按最近数小时估算。";
    axis_places: "Places", "位置";
    up_to: "up to", "至";
    axis_number: "number = {0} + {1} × place", "数字 = {0} + {1} × 位置";
    axis_granted: "Granted below", "已授予至";
    axis_floor: "raised to {0}", "已抬高至 {0}";
    last_extent: "Last extent", "最近授予的一段";
    places_to: "{0} to {1}", "{0} 至 {1}";
    axis_left: "Left at this master", "本主控剩余";
    axis_per_day: "Used a day", "每日用量";
    axis_free: "Not granted yet", "尚未授予";
    axis_lasts: "Lasts at this rate", "按此用量可用";
    axis_over: "all of it is granted", "已全部授予";
    over_a_century: "more than 100 years", "100 年以上";
    not_used: "not used lately", "近期没有使用";
    other_holds: "Other master has some", "另一主控持有";
    no_axis: "No name of kind segment is registered: register one under Namespaces.", "尚未注册 segment 类名称：请在命名空间页注册。";
    raise: "Raise", "抬高";
    raise_title: "Raise the axis of {name}?", "抬高 {name} 的号段轴？";
    raise_text: "Numbers below are given by nobody any more, except from segments that agents hold already. This cannot be undone: an axis is never lowered. Raise it above the numbers that another system gave for the same things.", "其下的数字不再给出，代理已持有的号段除外。此操作不可撤销：轴不会降低。请抬高到其他系统已为同一对象给出的数字之上。";
    raise_now: "A place from {granted} to {last} can be named.", "可填 {granted} 至 {last} 之间的位置。";
    raise_to: "First place that may still be given", "仍可给出的第一个位置";
    raise_number: "its number is {offset} + {increment} × place", "其数字为 {offset} + {increment} × 位置";
    raise_done: "The axis of {name} is raised to {to}.", "{name} 的号段轴已抬高至 {to}。";

    // Whitelist
    whitelist_hint: "Only agents from these networks may ask for leases. Agents that are minting go on under the leases they have.", "只有来自这些网络的代理可以申请租约。正在工作的代理继续使用已有租约。";
    network: "Network", "网络";
    network_hint: "in CIDR notation, such as 10.0.0.0/8 or 2001:db8::/32", "CIDR 表示法，如 10.0.0.0/8 或 2001:db8::/32";
    allow: "Allow a network", "允许网络";
    allow_button: "Allow", "允许";
    allow_done: "{range} may ask for leases.", "{range} 可以申请租约。";
    disallow: "Remove", "移除";
    disallow_title: "Remove {range} from the whitelist?", "从白名单中移除 {range}？";
    disallow_text: "Agents there get no new lease and no renewal; they stop when their leases end.", "该网络的代理将无法获得新租约或续租，租约到期后停止。";
    disallow_done: "{range} may not ask for leases any more.", "{range} 不再可以申请租约。";
    range_to_confirm: "Type {range} to confirm", "输入 {range} 以确认";
    whitelist_none: "Nobody may ask for leases.", "没有任何网络可以申请租约。";
    addresses: "Addresses", "地址数";

    // Audit
    audit_hint: "Who changed what, when and from where: written by each master together with the change itself, each line chained to the one before it.", "何人于何时何地更改了什么：由每台主控与更改同时写入，逐行链接。";
    line: "Line", "行号";
    when: "When", "时间";
    who: "Who", "操作者";
    from_where: "From", "来源";
    what: "What", "操作";
    about: "About", "对象";
    detail: "Detail", "详情";
    audit_none: "No line matches.", "没有符合的记录。";
    older: "Older lines", "更早的记录";
    newest: "Newest lines", "最新的记录";
    filter_audit: "Filter the audit", "筛选审计";
    verify: "Verify the chain", "校验链";
    verify_done: "The audit is whole: {lines} lines, and each follows from the one before it.", "审计完整：共 {lines} 行，逐行相连。";
    act_grant: "lease granted", "授予租约";
    act_deny: "lease not renewed any more", "租约不再续期";
    act_terminate: "lease terminated", "终止租约";
    act_end: "lease ended", "租约结束";
    act_renew: "lease renewed by hand", "手动续租";
    act_define: "namespace registered", "注册命名空间";
    act_retire: "namespace retired", "停用命名空间";
    act_about: "namespace described", "更改命名空间备注";
    act_extend: "part of an axis granted to a master", "号段轴的一段授予主控";
    act_raise: "axis raised", "号段轴已抬高";
    act_move_section: "section moved", "迁移号段区";
    act_drain: "agent drained", "排空代理";
    act_whitelist: "whitelist changed", "更改白名单";
    act_peer_lost: "master declared lost", "宣告主控丢失";
    act_join: "master replaced", "更换主控";
    act_rolled_back: "ledger rolled back", "账本回退";
    act_vouch: "store vouched for", "担保存储未被改动";
    act_reverted: "both ledgers put back", "两个账本均被恢复";
    act_after_revert: "goes on after a loss", "丢失后继续";
    act_forget_clock: "clock forgotten", "忘记时钟";
    act_login: "logged in", "登录";
    act_lockout: "locked out", "被锁定";
    act_user: "user changed", "更改用户";
    act_key: "API key changed", "更改 API 密钥";

    // Explain
    explain_hint: "Paste an ID of any kind. Nothing leaves this master.", "粘贴任意种类的 ID，内容不会离开本主控。";
    id: "ID", "ID";
    explain_button: "Explain", "解析";
    reading_form: "{0}, written as {1}", "{0}，写作 {1}";
    also: "It can also be read so", "还可以这样解读";
    field_year: "year", "年";
    field_month: "month", "月";
    field_day: "day", "日";
    field_hour: "hour", "时";
    field_minute: "minute", "分";
    field_second: "second", "秒";
    field_ms: "ms", "毫秒";
    field_time: "time", "时间";
    field_random: "random", "随机";
    field_token: "token", "令牌";
    field_serial: "serial", "序号";
    field_literal: "fixed", "固定";
    field_date: "date", "日期";
    field_biz: "business", "业务";
    field_custom: "custom", "自定义";
    field_check: "check", "校验";
    bits: "{0} bits", "{0} 位";
    one_bit: "1 bit", "1 位";
    serial: "Serial", "序号";
    time_written: "Time written into it", "写入的时间";
    in_offset: "in the cluster’s offset, {0}", "按集群时区偏移 {0}";
    other_forms: "The same ID in other forms", "同一 ID 的其他写法";
    holder_then: "Who held the token then", "当时的令牌持有者";
    holder_now: "It holds the token now.", "当前仍持有该令牌。";
    holder_from_audit: "From the audit.", "来自审计记录。";
    holder_none: "No lease of this token at that time is known here: the ID is of another cluster, or the audit does not go back that far.", "此处没有该时间该令牌的租约记录：ID 属于其他集群，或审计未保留到那时。";
    not_an_id: "This is not an ID", "这不是 ID";

    // Designer
    designer_hint: "A layout says which bits of a number are the time, which the agent’s token and which count. Begin with one that people use, change it, and see what it gives.", "布局规定数字中哪些位表示时间、哪些位是代理的令牌、哪些位用于计数。可从常用布局开始修改，并查看结果。";
    layout_begin: "Begin with", "起始布局";
    layout_own: "one of your own", "自定义";
    layout_bits: "Width of the number", "数字位宽";
    layout_epoch: "Epoch", "起始时刻";
    layout_epoch_hint: "the instant that time counts from, in UTC", "时间的起算点（UTC）";
    layout_unit: "Unit of time in ms", "时间单位（毫秒）";
    layout_unit_hint: "it divides a day: 1, 10, 100, 1000, …", "须能整除一天：1、10、100、1000……";
    layout_ahead: "Ahead of the clock, in ms", "可领先时钟（毫秒）";
    layout_ahead_hint: "when a tick is used up; empty: 1000 or a tick, 0: wait for the clock", "用于一个时间单位用尽时；留空为 1000 或一个单位，0 为等待时钟";
    encoding_usual: "as usual", "默认";
    only_agents_read: "Masters cannot read the texts of these names: {0}. Those of a strategy are read by GET /explain/ID at an agent that has it, encrypted ones by uniq_generator --explain ID with --serial-file and --secret-file.", "主控无法还原以下名称的文本：{0}。由策略生成的文本，请在具有该策略的代理上访问 GET /explain/ID；加密的文本，请用 --serial-file 和 --secret-file 运行 uniq_generator --explain ID。";
    layout_show: "Show", "查看";
    layout_gives: "What it gives", "布局能力";
    layout_example: "An ID of now, of token 1", "当前时刻、令牌 1 的 ID";
    layout_definition: "Definition", "定义";
    layout_definition_hint: "This is what PUT /generators/NAME of an agent takes.", "即代理的 PUT /generators/NAME 所接受的内容。";
    layout_refused: "There is none as long as something is wrong above.", "以上错误更正之前没有定义。";
    layout_register: "Register it", "注册该布局";
    part_time: "time", "时间";
    part_random: "random", "随机";
    part_zero: "zero", "零";
    part_const: "constant", "常量";
    bits_unit: "bits", "位";
    bits_label: "{0} bits, from the highest: {1}", "{0} 位，从最高位起：{1}";
    bits_of: "{0} of {1} bits", "{0} / {1} 位";
    border: "Border between fields {0} and {1}", "字段 {0} 与 {1} 的分界";
    border_hint: "Drag the borders in the picture, or move them with the arrow keys.", "可拖动图中的分界，或用方向键移动。";
    field_what: "Field {0}: what stands there", "字段 {0}：内容";
    field_width: "Field {0}: bits", "字段 {0}：位数";
    field_value: "Field {0}: its number", "字段 {0}：数值";
    field_up: "Move field {0} up", "上移字段 {0}";
    field_down: "Move field {0} down", "下移字段 {0}";
    field_remove: "Remove field {0}", "移除字段 {0}";
    field_add: "Add a field", "添加字段";
    fact_per_second: "IDs a second, of an agent", "每代理每秒 ID 数";
    fact_agents: "Agents at once", "可同时工作的代理";
    fact_all: "IDs a second, of all agents", "全部代理每秒 ID 数";
    fact_last_day: "Last day", "最后一天";
    fact_sorted: "Sorts by time", "按时间排序";
    fact_javascript: "Safe for JavaScript, below 2^53", "JavaScript 安全（小于 2^53）";
    fact_bigint: "Fits a signed BIGINT", "可存入有符号 BIGINT";
    warn_not_sorted: "A later number may be smaller: put the time above token, serial and random bits.", "较晚的数字可能更小：请将时间置于令牌、序号和随机位之前。";
    warn_javascript: "JavaScript, and JSON read by it, rounds numbers from 2^53 on: hand them over as texts.", "JavaScript 及其读取的 JSON 会对 2^53 及以上的数字取整：请以文本形式传递。";
    warn_bigint: "Some numbers are 2^63 or more: a signed BIGINT takes them for negative ones or refuses them. Begin with a zero.", "部分数字达到 2^63 及以上：有符号 BIGINT 会视为负数或拒绝。请以零开头。";
    warn_few_agents: "Few agents fit: give the token more bits.", "可容纳的代理很少：请增加令牌位数。";
    warn_slow: "An agent gives few IDs a second: give the serial more bits, or take a shorter unit.", "每代理每秒 ID 数较少：请增加序号位数，或缩短时间单位。";
    warn_ends_early: "Its time ends within ten years: give it more bits, a longer unit or a later epoch.", "时间将在十年内用尽：请增加位数、加长单位或推后起始时刻。";

    // Users and keys
    user: "User", "用户";
    user_list: "Users", "用户列表";
    role: "Role", "角色";
    role_viewer: "viewer", "查看者";
    role_operator: "operator", "操作员";
    role_admin: "admin", "管理员";
    role_viewer_text: "reads everything but users and keys", "可查看除用户与密钥外的一切";
    role_operator_text: "also renews and terminates leases, registers and describes namespaces, raises axes", "还可续租、终止租约、注册命名空间、更改其备注并抬高号段轴";
    role_admin_text: "also changes the whitelist, users and keys", "还可更改白名单、用户和密钥";
    you: "you", "您";
    password: "Password", "密码";
    new_password: "New password", "新密码";
    current_password: "Current password", "当前密码";
    password_hint: "at least {0} characters, and not mostly the name", "至少 {0} 个字符，且不能与用户名雷同";
    add_user: "Add a user", "添加用户";
    add_user_button: "Add", "添加";
    add_user_done: "{name} can log in.", "{name} 可以登录。";
    user_name_hint: "1 to 32 of a-z 0-9 . _ -", "1 至 32 个字符：a-z 0-9 . _ -";
    change_role: "Change role", "更改角色";
    change_role_title: "Change the role of {name}", "更改 {name} 的角色";
    change_role_done: "{name} has another role now, and has to log in again.", "{name} 的角色已更改，需要重新登录。";
    set_password: "Set password", "设置密码";
    set_password_title: "Set a new password for {name}", "为 {name} 设置新密码";
    set_password_done: "{name} has a new password, and has to log in again.", "{name} 的密码已更改，需要重新登录。";
    remove: "Remove", "移除";
    remove_user_title: "Remove {name}?", "移除 {name}？";
    remove_user_text: "Open sessions end at once.", "其已登录的会话立即结束。";
    remove_user_done: "{name} is removed.", "{name} 已移除。";
    type_to_confirm: "Type {name} to confirm", "输入 {name} 以确认";
    own_password: "Your password", "您的密码";
    own_password_button: "Change", "更改";
    own_password_done: "Your password is changed. Log in with it.", "密码已更改，请用新密码登录。";
    keys: "API keys", "API 密钥";
    keys_hint: "For scripts: sent as Authorization: Bearer KEY. A key is shown once, when it is made.", "供脚本使用：以 Authorization: Bearer KEY 发送。密钥仅在创建时显示一次。";
    no_keys: "No key was made yet.", "尚无密钥。";
    add_key: "Make a key", "创建密钥";
    add_key_button: "Make", "创建";
    add_key_done: "Key {name} is made. Copy it now: it is never shown again.", "密钥 {name} 已创建。请立即复制，之后不再显示。";
    remove_key_title: "Remove the key {name}?", "移除密钥 {name}？";
    remove_key_text: "Scripts that use it are refused at once.", "使用它的脚本立即被拒绝。";
    remove_key_done: "The key {name} is removed.", "密钥 {name} 已移除。";

    // Settings
    settings_hint: "What the cluster was made with, and how this master was started. None of it changes while it runs.", "集群创建时的参数与本主控的启动参数，运行期间不变。";
    cluster: "Cluster", "集群";
    this_master: "This master", "本主控";
    pairing: "Pairing", "配对";
    pairing_hint: "grows when a master is replaced", "更换主控时增加";
    lease_length: "Length of a lease", "租约时长";
    grace: "Rest after a lease", "租约后静置";
    grace_hint: "after the end of the day in which the lease ends", "自租约到期当日结束起";
    solo: "A master may renew alone for", "单机续租上限";
    budget: "Open leases of an agent and token type", "每代理每类型的租约数上限";
    utc_offset: "UTC offset of IDs", "ID 的 UTC 偏移";
    uint2_max: "Largest uint2 token", "最大 uint2 令牌";
    n_days: "{0} days", "{0} 天";
    one_day: "1 day", "1 天";

    // Login and errors
    log_in: "Log in", "登录";
    wrong_login: "There is no such user with this password.", "用户名或密码不正确。";
    locked_out: "Too many failed logins. Try again in {0} min.", "登录失败次数过多，请在 {0} 分钟后重试。";
    first_login: "First start? The user is admin, and the password is in the file admin-password of master 1’s data folder.", "首次启动？用户名为 admin，密码在 1 号主控数据目录的 admin-password 文件中。";
    error_400: "This cannot be understood", "无法理解该请求";
    error_403: "You may not do this", "没有权限";
    error_404: "There is nothing here", "页面不存在";
    error_503: "Not now", "暂时不可用";
    error_other: "Something went wrong", "出错了";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_have_the_same_places_to_fill() {
        let places = |text: &str| {
            let mut found: Vec<String> =
                text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap().to_owned()).collect();
            found.sort();
            found
        };
        assert!(PAIRS.len() > 200);
        for (name, en, zh) in PAIRS {
            assert_eq!(places(en), places(zh), "{name}");
            assert!(!en.is_empty() && !zh.is_empty() && !en.contains(['<', '>']) && !zh.contains(['<', '>']), "{name}");
        }
    }

    #[test]
    fn the_browsers_first_language_that_we_speak_is_taken() {
        assert_eq!(Lang::accepted("de-DE,zh-CN;q=0.9,en;q=0.8"), Some(Lang::Zh));
        assert_eq!(Lang::accepted("en-GB"), Some(Lang::En));
        assert_eq!(Lang::accepted("fr, de;q=0.5"), None);
        assert_eq!((Lang::of_tag("zh-CN"), Lang::of_tag("zh")), (Some(Lang::Zh), None));
    }

    #[test]
    fn values_go_where_they_belong() {
        assert_eq!(fill("{1} of {0}, {0}", &["a", "b"]), "b of a, a");
        assert_eq!(fill("{2}{x} {", &["a"]), " {");
    }
}
