//! Texts of sequences, their sections and the agents that serve them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

macro_rules! sequences {
    ([$($rest:ident)*] $($before:tt)*) => { words! { [$($rest)*] $($before)*

    // Sequences
    sequences: "Sequences", "序列";
    sequences_hint: "A name of kind sequence gives each key its own growing numbers. Its keys are in sections; each section is served by one agent, and moves to another one when that agent stops, dies or is drained.", "sequence 类名称为每个键给出各自递增的号码。键分属各个区段；每个区段由一个代理提供服务，该代理停止、失效或被排空时移至另一代理。";
    sections: "Sections", "区段";
    section_from_to: "{0} to {1}", "{0} 至 {1}";
    sections_of: "{0} of {1} sections given", "已分配 {0} 个区段，共 {1} 个";
    sections_moving: "{0} moving", "{0} 个正在移动";
    sections_unserved: "{0} served by nobody", "{0} 个无代理服务";
    sections_map: "Who serves what", "区段分布";
    sections_map_hint: "Each bar goes from the first to the last section that was ever asked for. The table says the same in words.", "每条从第一个到最后一个被请求过的区段。下表以文字列出相同内容。";
    sections_bar: "Sections {0} to {1} of {2}: {3}", "{2} 的区段 {0} 至 {1}：{3}";
    sections_bar_part: "{0} to {1}: {2}", "{0} 至 {1}：{2}";
    sections_bar_more: "and {0} more parts", "另有 {0} 段";
    sections_mixed: "mostly {0}", "主要为 {0}";
    section_served: "served", "服务中";
    section_served_text: "its agent serves it", "由其代理提供服务";
    section_waiting: "waiting", "等待中";
    section_waiting_text: "its new agent waits until the one before it serves no more; calls wait as long", "新代理等待前一代理不再服务；期间请求等待";
    section_proposed: "proposed", "提议中";
    section_proposed_text: "a next agent is proposed, and the other master has not confirmed it", "已提议下一代理，另一台主控尚未确认";
    section_unserved: "served by nobody", "无代理服务";
    section_unserved_text: "its agent is silent at both masters, and no other one took it over yet", "其代理对两台主控均无响应，尚无其他代理接管";
    section_next: "goes to {0}", "移至 {0}";
    section_owners: "Owner no.", "第几任";
    section_owners_long: "How often it changed hands; 1 is the first owner", "更换服务代理的次数；1 为首任";
    section_max_seq: "Bound", "上界";
    section_max_seq_long: "No number above it was given for any key of this section", "该区段的任何键都未给出超过它的号码";
    no_sequence: "No name of kind sequence is registered.", "没有注册 sequence 类名称。";
    no_section: "No section matches: those that nobody asked for yet belong to nobody.", "没有符合条件的区段：从未被请求的区段不属于任何代理。";
    sequences_more: "and {0} more names: choose a set or a name", "另有 {0} 个名称：请选择集合或名称";
    filter_sections: "Filter the sections", "筛选区段";
    from_the_beginning: "From the beginning", "从头显示";
    sections_shown: "{0} rows", "{0} 行";
    allocators: "Agents that serve sections", "提供服务的代理";
    allocators_hint: "All that either master heard of in the last ten minutes and that are started with a set.", "近十分钟内任一主控听到的、以某集合启动的全部代理。";
    sets: "Sets", "集合";
    memory: "Memory for keys", "键内存";
    memory_of: "{0} of {1}", "{0} / {1}";
    calls_per_second: "Calls a second", "每秒请求";
    last_keep: "Last asked here", "最近询问本机";
    silent_since: "last heard here:", "本机最近听到：";
    keyed_told: "{0} agents serve {1} sections of keys.", "{0} 个代理为 {1} 个键区段提供服务。";
    keyed_silent: "{0} silent", "{0} 个无响应";
    keyed_leaving: "{0} drained or stopping", "{0} 个排空或停止中";
    allocator_serves: "serves", "服务中";
    allocator_draining: "drained", "排空中";
    allocator_drained: "drained: empty", "已排空";
    allocator_leaves: "stops", "停止中";
    allocator_silent: "silent", "无响应";
    allocator_serves_text: "is given sections and serves them", "获得区段并提供服务";
    allocator_draining_text: "its sections go to others, a few at a time, and it gets none", "其区段逐批移至其他代理，且不再获得区段";
    allocator_drained_text: "has no section left and gets none: it can be stopped", "已没有区段，也不再获得：可以停止";
    allocator_leaves_text: "is about to stop and gives its sections away", "即将停止，正在交出区段";
    allocator_silent_text: "was not heard by either master for longer than it may serve", "两台主控都超过其可服务时长没有听到它";
    no_allocator: "No agent serves sequences.", "没有提供序列服务的代理。";
    move_section: "Move", "移动";
    move_title: "Move a section of {name} to another agent?", "将 {name} 的一个区段移至其他代理？";
    move_text: "Calls for its keys wait while it moves, about half of --sequence-lease, and none is refused. The numbers of each key go on above those that were given; some are skipped.", "移动期间对其键的请求会等待，约为 --sequence-lease 的一半，不会被拒绝。每个键的号码在已给出的号码之上继续，会跳过一部分。";
    move_which: "Section, {from} to {to}", "区段，{from} 至 {to}";
    move_to: "To the agent", "移至代理";
    move_confirm: "Type {name}/ and the number of the section to confirm", "输入 {name}/ 和区段号以确认";
    move_done: "Section {section} of {name} is on its way to {to}.", "{name} 的区段 {section} 正移至 {to}。";
    raise_key: "Raise a key", "抬高一个键";
    raise_key_title: "Let a key of {name} go on from a larger number?", "让 {name} 的某个键从更大的号码继续？";
    raise_key_text: "All keys of its section go on from there, for ever: a number is never lowered. Calls for them wait while the section is loaded anew, about one --sequence-lease. Raise a key above the number that another system gave last.", "其区段的所有键都从该号码继续，且不可撤销：号码不会降低。区段重新加载期间对这些键的请求会等待，约为一个 --sequence-lease。请抬高到其他系统最后给出的号码之上。";
    raise_key_which: "Key", "键";
    raise_key_to: "First number that may still be given", "仍可给出的第一个号码";
    raise_key_done: "Section {section} of {name} goes on from {to}.", "{name} 的区段 {section} 从 {to} 继续。";
    drain: "Drain", "排空";
    drain_title: "Take all sections away from {agent}?", "取走 {agent} 的全部区段？";
    drain_text: "They go to other agents of its sets, a few at a time; calls for keys on their way wait, about half of --sequence-lease, and none is refused. It gets no section until that is taken back. When it has none left it can be stopped.", "区段逐批移至同集合的其他代理；对移动中键的请求会等待，约为 --sequence-lease 的一半，不会被拒绝。撤销之前它不再获得区段。没有剩余区段后即可停止。";
    drain_confirm: "Type {agent} to confirm", "输入 {agent} 以确认";
    drain_done: "{agent} is drained: {sections} sections go to others.", "正在排空 {agent}：{sections} 个区段移至其他代理。";
    undrain: "Let it serve again", "恢复服务";
    undrain_done: "{agent} is given sections again.", "{agent} 重新获得区段。";
    } };
}
