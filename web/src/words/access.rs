//! Texts of who may do what, the audit, the settings, the login and errors.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

macro_rules! access {
    ([$($rest:ident)*] $($before:tt)*) => { words! { [$($rest)*] $($before)*

    // Whitelist
    whitelist_hint: "Only agents from these networks may ask for leases. Agents that are minting go on under the leases they have.", "只有来自这些网络的代理可以申请租约。正在工作的代理继续使用已有租约。";
    network: "Network", "网络";
    network_hint: "in CIDR notation, such as 10.0.0.0/8 or 2001:db8::/32", "CIDR 表示法，如 10.0.0.0/8 或 2001:db8::/32";
    allow: "Allow a network", "允许网络";
    allow_button: "Allow", "允许";
    allow_done: "{range} may ask for leases.", "{range} 可以申请租约。";
    disallow: "Remove", "移除";
    disallow_title: "Remove {range} from the whitelist?", "从白名单中移除 {range}？";
    disallow_text: "Agents there get no new lease and no renewal: they stop when their leases end, and give no more numbers of keys within seconds.", "该网络的代理将无法获得新租约或续租：租约到期后停止，几秒内不再分配键的号码。";
    disallow_some: "This ends the service of {cut_off}. Agents: {agents}; leases that they hold: {leases}; sections that they serve: {sections}.", "这将中断 {agents} 个代理的服务，它们持有 {leases} 个租约并负责 {sections} 个区段：{cut_off}。";
    disallow_nobody: "No agent that is known calls from there alone.", "目前没有已知代理仅属于该网络。";
    disallow_done: "{range} may not ask for leases any more.", "{range} 不再可以申请租约。";
    range_to_confirm: "Type {range} to confirm", "输入 {range} 以确认";
    whitelist_none: "Nobody may ask for leases.", "没有任何网络可以申请租约。";
    addresses: "Addresses", "地址数";

    // Audit
    audit_hint: "Who changed what, when and from where: written by each master together with the change itself, each line chained to the one before it.", "何人于何时何地更改了什么：由每台主控与更改同时写入，逐行链接。";
    by: "By", "来源类别";
    by_people: "people, and rare events", "人员及罕见事件";
    by_machines: "masters and agents", "主控与代理";
    by_all: "everybody", "全部";
    line: "Line", "行号";
    when: "When", "时间";
    who: "Who", "操作者";
    from_where: "From", "来源";
    what: "What", "操作";
    about: "About", "对象";
    detail: "Detail", "详情";
    audit_none: "No line matches.", "没有符合的记录。";
    audit_none_yet: "None of the 10,000 lines searched matches; older ones may.", "已查看的 10,000 行中没有符合的记录，更早的行中可能有。";
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
    act_dismiss: "what agents show of an axis dismissed", "驳回号段轴的出示";
    act_move_section: "section moved", "迁移号段区";
    act_raise_section: "section raised", "抬高区段";
    act_drain: "agent drained", "排空代理";
    act_export: "settings exported", "导出设置";
    act_import: "settings imported", "导入设置";
    act_whitelist: "whitelist changed", "更改白名单";
    act_peer_lost: "master declared lost", "宣告主控丢失";
    act_join: "master replaced", "更换主控";
    act_rolled_back: "ledger rolled back", "账本回退";
    act_vouch: "store vouched for", "担保存储未被改动";
    act_reverted: "both ledgers put back", "两个账本均被恢复";
    act_after_revert: "resumed after a loss", "丢失后继续";
    act_forget_clock: "clock forgotten", "忘记时钟";
    act_login: "logged in", "登录";
    act_lockout: "locked out", "被锁定";
    act_user: "user changed", "更改用户";
    act_key: "API key changed", "更改 API 密钥";

    // Users and keys
    user: "User", "用户";
    user_list: "Users", "用户列表";
    role: "Role", "角色";
    role_viewer: "viewer", "查看者";
    role_operator: "operator", "操作员";
    role_admin: "admin", "管理员";
    role_viewer_text: "reads everything but users and keys", "可查看除用户与密钥外的一切";
    role_operator_text: "also renews and terminates leases, registers and describes namespaces, raises axes and keys", "还可续租、终止租约、注册命名空间、更改其备注并抬高号段轴和键";
    role_admin_text: "also changes the whitelist, users and keys, exports and imports", "还可更改白名单、用户和密钥，以及导出和导入";
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
    keys_hint: "For scripts: sent as Authorization: Bearer KEY. A key is shown once, when it is created.", "供脚本使用：以 Authorization: Bearer KEY 发送。密钥仅在创建时显示一次。";
    no_keys: "There are no keys yet.", "尚无密钥。";
    add_key: "Create a key", "创建密钥";
    add_key_button: "Create", "创建";
    add_key_done: "Key {name} is created. Copy it now: it is never shown again.", "密钥 {name} 已创建。请立即复制，之后不再显示。";
    remove_key_title: "Remove the key {name}?", "移除密钥 {name}？";
    remove_key_text: "Scripts that use it are refused at once.", "使用它的脚本立即被拒绝。";
    remove_key_done: "The key {name} is removed.", "密钥 {name} 已移除。";

    // Settings
    settings_hint: "The parameters of the cluster, and the flags this master was started with. None of it changes while it runs.", "集群创建时的参数与本主控的启动参数，运行期间不变。";
    backup: "Backup", "备份";
    backup_hint: "Names with their definitions and notes, networks and users, without passwords, keys or secrets. A store itself is never restored.", "名称的定义与备注、网络和用户，不含密码、密钥和机密。存储本身绝不可恢复使用。";
    export: "Export", "导出";
    import: "Import", "导入";
    import_file: "File of an export", "导出的文件";
    import_hint: "What is here stays. Names of kind segment need \"first\" in the file, above all that was ever granted; those of kind sequence come in retired.", "已有的内容保持不变。segment 类名称须在文件中写明 \"first\"，且高于曾发放的一切；sequence 类名称导入后即为停用。";
    import_preview: "only say what would be done", "仅预览";
    import_do: "do it", "执行导入";
    import_done: "New: {names_new} names, {notes_new} notes, {users_new} users, {networks_new} networks. There already: {names_there}, {notes_there}, {users_there}, {networks_there}. Come in retired: {retired}. With another note, which stays: {noted_otherwise}.", "新增：{names_new} 个名称、{notes_new} 条备注、{users_new} 个用户、{networks_new} 个网络。已存在：{names_there}、{notes_there}、{users_there}、{networks_there}。导入即停用：{retired}。备注不同而保留：{noted_otherwise}。";
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
    error_400: "The request cannot be understood", "无法理解该请求";
    error_403: "You may not do this", "没有权限";
    error_404: "Page not found", "页面不存在";
    error_503: "Not available now", "暂时不可用";
    error_other: "Something went wrong", "出错了";
    } };
}
