//! Texts of taking IDs apart and designing layouts.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

macro_rules! tools {
    ([$($rest:ident)*] $($before:tt)*) => { words! { [$($rest)*] $($before)*

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
    given_by: "May have been given by", "可能的生成名称";
    names_and_more: "{0} and {1} more", "{0} 及另外 {1} 个";
    hides_numbers: "Its name hides its numbers: it gives them in this form alone.", "该名称隐藏其数字：只以这种形式给出。";
    carries_nothing: "A plain number carries neither time nor token.", "普通数字既不含时间也不含令牌。";
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
    layout_ahead_hint: "when a tick of up to 10 s is used up; empty: 1000 or a tick, 0: wait for the clock", "用于不超过 10 秒的时间单位用尽时；留空为 1000 或一个单位，0 为等待时钟";
    encoding_usual: "as usual", "默认";
    only_agents_read: "It may be of a name that hides its numbers from masters: {0}. Those of a strategy are read by GET /explain/ID at an agent that has it, encrypted ones by uniq_generator --explain ID with --serial-file and --secret-file.", "它可能来自对主控隐藏数字的名称：{0}。由策略生成的文本，请在具有该策略的代理上访问 GET /explain/ID；加密的文本，请用 --serial-file 和 --secret-file 运行 uniq_generator --explain ID。";
    layout_show: "Show", "查看";
    layout_gives: "What it gives", "生成能力";
    layout_example: "An ID of now, of token 1", "当前时刻、令牌 1 的 ID";
    layout_definition: "Definition", "定义";
    layout_definition_hint: "This is what PUT /generators/NAME of an agent takes.", "即代理的 PUT /generators/NAME 所接受的内容。";
    layout_refused: "There is none until the errors above are corrected.", "以上错误更正之前没有定义。";
    layout_register: "Register it", "注册";
    template_designer_hint: "A template says what stands where in strings of fixed length. Write one, or add its fields one by one, and see what it gives.", "模板规定定长字符串中每个位置的内容。可直接输入，也可逐个添加字段，结果即时显示。";
    template_examples: "IDs of now, of two agents", "当前时刻、来自两个代理的 ID";
    characters_label: "{0} characters: {1}", "{0} 个字符：{1}";
    warn_reads_as: "The first example can also be read as an ID of another kind or name ({0}): if both may stand in one place, give the template a letter or a ‘-’ that tells them apart.", "首个示例也可解读为其他种类或名称的 ID（{0}）：若两者会用于同一处，请在模板中加入用以区分的字母或“-”。";
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
    } };
}
