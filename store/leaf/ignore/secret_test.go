package ignore

import "testing"

// Secret recognises the file names that secret scanners look for, but not the names of ordinary
// sources.
func TestSecretNames(t *testing.T) {
	for _, p := range []string{
		".env", "a/.env.production", "prod.env", ".envrc", "a/.envrc", ".ENVRC", "kubeconfig", "deploy/kubeconfig.yaml", "dev.kubeconfig", ".kube/config", "home/.kube/config",
		"terraform.tfstate", "terraform.tfstate.1700000000.backup", ".terraform.tfstate.lock.info", ".env-prod", ".env_local", "auth.json", "codex/auth.json", "NuGet.Config", "http-client.private.env.json", "config/prod.secret.exs",
		".httr-oauth", "export_credentials.cfg", "site.pubxml", "site.azurePubxml", "ServiceConfiguration.cscfg", "ssh.keypair", ".gitconfig", "npmrc", "pgpass", "s3cfg", "dockercfg", "bash_history", "sftp-config",
		"terraform.tfstate.backup", "prod.tfvars", "x.auto.tfvars.json", "id_rsa", "deploy_rsa", "host_ed25519", "server.pem", "a.pkcs12", "a.p8", "x.keytab",
		".npmrc", ".yarnrc.yml", ".netrc", ".pypirc", ".pgpass", ".my.cnf", ".git-credentials", ".dockercfg", ".docker/config.json", ".aws/credentials", ".s3cfg", ".vault-token",
		"secrets.toml", "credentials.json", "credentials.xml", "client_secret_1.json", "serviceAccountKey.json", "application_default_credentials.json", ".config/gh/hosts.yml",
		".gem/credentials", ".cargo/credentials.toml", "wp-config.php", "LocalSettings.php", "sftp-config.json", ".bash_history", ".psql_history", ".htpasswd", "otr.private_key", "a.ovpn", "a.psafe3", "a.rdp",
	} {
		if !Secret(p) {
			t.Errorf("%s would be sent", p)
		}
	}
	for _, p := range []string{"main.go", "env.go", "environment.ts", "id.go", "id_test.go", "keys.go", "settings.py", "docs/secrets.md", "token.rs", "monkey", "config.json", "kube/config.go", "history.md", "etc/shadowing", "database.yml", "my.cargo/credential.go", "gradle.properties"} {
		if Secret(p) {
			t.Errorf("%s would stay here", p)
		}
	}
}
