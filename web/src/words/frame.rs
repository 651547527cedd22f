//! Texts of the frame that all pages share, times, and how the masters are.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

macro_rules! frame {
    ([$($rest:ident)*] $($before:tt)*) => { words! { [$($rest)*] $($before)*

    // The frame
    overview: "Overview", "概览";
    leases: "Leases", "租约";
    agents: "Agents", "代理";
    namespaces: "Namespaces", "命名空间";
    axes: "Axes", "号段轴";
    whitelist: "Whitelist", "白名单";
    audit: "Audit", "审计";
    designer: "Layout designer", "布局设计";
    template_designer: "Template designer", "模板设计";
    explain: "Explain an ID", "解析 ID";
    users: "Users and keys", "用户与密钥";
    settings: "Settings", "设置";
    skip: "Skip to the content", "跳到正文";
    menu: "Menu", "菜单";
    navigation: "Pages", "页面";
    preferences: "Language and theme", "语言与外观";
    language: "Language", "语言";
    theme: "Theme", "外观";
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
    unreachable: "The console did not answer. Whether the change was made is not known: check before you try again.", "控制台没有响应，结果未知：重试前请先查看当前状态。";
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
    status_calendar_text: "It is {0} ahead of the machine’s own clock, by which that master goes on. Correct it by the time service; if it is right now, restart that master. A jump of at most one day that lasts for five minutes is followed automatically.", "它比机器自身的时钟快 {0}，该主控按后者继续运行。请用时间服务校正；如果现在的时间是对的，请重启该主控。不超过一天且持续五分钟的跳变会被自动采纳。";
    gate: "Changes need both masters, and the other one is away. Start it or repair the network between them; then this can be done.", "更改需要两台主控都在线，而另一台目前不在。请启动它或修复网络后再操作。";
    } };
}
