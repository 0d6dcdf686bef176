import { mount } from 'svelte';
import './tokens.css';
import './base.css';
import App from './App.svelte';
import { app } from './state.svelte';

const target = document.getElementById('app');
if (!target) throw new Error('index.html lacks #app');
mount(App, { target });
app.start();
