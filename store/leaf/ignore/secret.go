package ignore

import (
	"slices"
	"strings"
)

// Names of files with credentials, in lower case. Source files that may hold credentials
// (settings.py, config.php, database.yml, *.sql) are missing, because most of them hold none.
var (
	// secretEnds are the ends of names.
	secretEnds = []string{
		".pem", ".key", ".keys", ".p8", ".p12", ".pfx", ".pkcs12", ".jks", ".jceks", ".bks", ".keystore", ".keyring", ".keytab", ".ppk", ".asc", ".gpg",
		".agekey", ".kdb", ".kdbx", ".psafe3", ".agilekeychain", ".keychain", ".keychain-db", ".kwallet", ".ovpn", ".tblk", ".bek", ".fve", ".tpm", ".rdp",
		".tfstate", ".tfstate.backup", ".tfvars", ".tfvars.json", ".env", ".envrc", ".kubeconfig", "_rsa", "_dsa", "_ecdsa", "_ed25519", ".publishsettings",
		".pubxml", ".pubxml.user", ".azurepubxml", ".cscfg", ".keypair", ".secret.exs",
	}
	// secretBegins are the beginnings of names.
	secretBegins = []string{".env.", ".env-", ".env_", ".envrc.", "credentials", "client_secret", "kubeconfig", "firebase-adminsdk", "serviceaccountkey", "service-account", "service_account"}
	// secretParts are parts at any position of a name.
	secretParts = []string{".tfstate.", ".private.env."}
	// secretNames are whole names. Names with a leading dot also count without it.
	secretNames = []string{
		".dev.vars", ".netrc", "_netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".htpasswd", "htpasswd", ".htdigest",
		".git-credentials", ".dockercfg", ".dockerconfigjson", ".s3cfg", ".boto", ".passwd-s3fs", "rclone.conf", ".terraformrc", "terraform.rc", "credentials.tfrc.json", ".vault-token", ".vault_pass", ".vault-pass",
		"secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml", "secrets.env", "secret.yml", "secret.yaml", "secret.json", "secret_token.rb", "master.key",
		"application_default_credentials.json", "accesstokens.json", "azureprofile.json", "msal_token_cache.json", "local.settings.json", "sftp-config.json", ".ftpconfig", ".remote-sync.json", "deployment-config.json",
		"filezilla.xml", "recentservers.xml", "robomongo.json", ".dbeaver-data-sources.xml", "dbeaver-data-sources.xml", "wp-config.php", "localsettings.php", "jenkins.plugins.publish_over_ssh.bapsshpublisherplugin.xml",
		"proftpdpasswd", "ventrilo_srv.ini", "otr.private_key", "wallet.dat", "configuration.user.xpl", ".tugboat", ".trc", ".muttrc", ".esmtprc", ".msmtprc", ".fetchmailrc",
		"auth.json", "nuget.config", ".httr-oauth", "export_credentials.cfg", ".gitconfig", ".zhistory", "sftp-config",
		".bash_history", ".zsh_history", ".sh_history", ".python_history", ".node_repl_history", ".mysql_history", ".psql_history", ".rediscli_history", ".irb_history", ".pry_history",
	}
	// secretPaths are the ends of paths, beginning with the name of a directory.
	secretPaths = []string{
		".aws/credentials", ".aws/config", ".docker/config.json", ".kube/config", ".kube/cache", ".ssh/config", ".gem/credentials", ".cargo/credentials", ".cargo/credentials.toml", ".m2/settings.xml", ".m2/settings-security.xml",
		".gradle/gradle.properties", ".config/gh/hosts.yml", ".config/hub", ".config/doctl/config.yaml", ".config/gcloud/credentials.db", ".config/gcloud/access_tokens.db", ".config/op/config", ".config/age/keys.txt", "sops/age/keys.txt",
		".purple/accounts.xml", ".irssi/config", ".recon-ng/keys.db", ".vscode/sftp.json", ".streamlit/secrets.toml", ".databrickscfg", ".snowflake/connections.toml", "etc/shadow", ".git/config",
	}
)

// Secret reports whether a file's name suggests that the file holds credentials. The history
// records such files like others, but they are never indexed, injected, shown in search or sent to
// a bucket.
func Secret(path string) bool {
	path = strings.ToLower(path)
	base := path[strings.LastIndexByte(path, '/')+1:]
	ends := func(end string) bool { return strings.HasSuffix(base, end) }
	begins := func(begin string) bool { return strings.HasPrefix(base, begin) }
	has := func(part string) bool { return strings.Contains(base, part) }
	switch {
	case slices.Contains(secretNames, base), slices.Contains(secretNames, "."+base), slices.ContainsFunc(secretEnds, ends), slices.ContainsFunc(secretBegins, begins), slices.ContainsFunc(secretParts, has):
		return true
	case begins("id_") && !strings.Contains(base, "."):
		return true
	}
	return slices.ContainsFunc(secretPaths, func(end string) bool {
		return path == end || strings.HasSuffix(path, "/"+end)
	})
}

// SecretPatterns returns the rules of Secret as globs, for display.
func SecretPatterns() (out []string) {
	for _, s := range secretEnds {
		out = append(out, "*"+s)
	}
	for _, s := range secretBegins {
		out = append(out, s+"*")
	}
	for _, s := range secretParts {
		out = append(out, "*"+s+"*")
	}
	out = append(out, "id_* without a dot")
	return append(append(out, secretNames...), secretPaths...)
}
