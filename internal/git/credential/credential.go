// SPDX-License-Identifier: Apache-2.0

// Package credential names the keys of the Secret of a git source: users fill it, the controller picks from it what a fetch
// needs, and the fetch finds it as files of these names. It is apart from the fetching itself, so that the controller carries no
// git client.
package credential

const (
	// Username is sent with Password or Token.
	Username = "username"
	// Password is the user's, or opens Identity when that is encrypted.
	Password = "password"
	// Token is sent as a password, and wins over Password.
	Token = "token"
	// Identity is a private key for SSH.
	Identity = "identity"
	// KnownHosts are the keys of SSH servers, in the format of OpenSSH.
	KnownHosts = "known_hosts"
	// Authority holds certificate authorities in PEM that are trusted for HTTPS.
	Authority = "ca.crt"
)
